import BenchmarkSupport
import TestSupport

/// The prebuilt requests of 32 clients, so that the generator only sends during a measurement.
struct RequestMix {
    let key: String
    /// How many installations the database holds, numbers 0 to below.
    let stored: Int
    private var random: SeededGenerator
    /// The next number that is not registered yet.
    private var fresh: Int
    /// The next of the stored tokens that moves to a new installation.
    private var moved = 0

    /// - Parameter stored: At least ten; a tenth of them, the last, is what moves.
    init(key: String, stored: Int, fresh: Int, seed: UInt64) {
        self.key = key
        self.stored = stored
        self.fresh = fresh
        random = SeededGenerator(seed: seed)
    }

    /// The first number that was not used.
    var end: Int { fresh }

    /// 70 % repeat a registration, 20 % are new, and 10 % have a known token with a new installation: half of these after a reinstall, for
    /// the same user, and half for another user, which changes the owner and makes a fence.
    mutating func registrations(_ count: Int) -> [HTTPRequest] {
        (0..<count).map { _ in
            switch Int.random(in: 0..<10, using: &random) {
            case ..<7: return register(Int.random(in: 0..<(stored - movers), using: &random))
            case ..<9:
                defer { fresh += 1 }
                return register(fresh)
            default:
                defer { (fresh, moved) = (fresh + 1, (moved + 1) % movers) }
                let number = stored - 1 - moved
                let user = Bool.random(using: &random) ? Population.user(of: number) : Population.user(of: fresh)
                return register(fresh, body: Population.body(fresh, user: user, token: Population.token(number)))
            }
        }
    }

    mutating func reads(_ count: Int) -> [HTTPRequest] {
        (0..<count).map { _ in
            let user = Population.user(of: Int.random(in: 0..<stored, using: &random))
            return HTTPRequest("GET", "/v1/apps/\(Population.app)/users/\(user)/installations", key: key)
        }
    }

    private var movers: Int { stored / 10 }

    private func register(_ number: Int, body: String? = nil) -> HTTPRequest {
        HTTPRequest(
            "PUT", "/v1/apps/\(Population.app)/installations/\(Population.installation(number))", key: key,
            body: body ?? Population.body(number))
    }
}
