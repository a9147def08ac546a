import APNs
import ArgumentParser
import OpenSSL
import PushModel

/// Runs a fixed piece of work, whose instructions deploy/scripts/check-instructions.sh counts with valgrind.
///
/// Callgrind counts inside of the functions whose names begin with `counted`, and nothing else of the program. None of them calls another.
@main
struct InstructionCount: ParsableCommand {
    enum Part: String, CaseIterable, ExpressibleByArgument {
        /// Jobs with one delivery, through the dispatcher's core.
        case coreOne = "core-1"
        /// Jobs with a hundred deliveries.
        case coreHundred = "core-100"
        /// Requests through a connection of the APNs client.
        case client
    }

    static let configuration = CommandConfiguration(abstract: "Run a fixed piece of work, and print how many deliveries were counted.")

    private static let turns = 40

    @Argument(help: "core-1, core-100 or client.") var part: Part

    func run() throws {
        print(try deliveries())
    }

    private func deliveries() throws -> Int {
        switch part {
        case .coreOne: return try core(deliveriesPerJob: 1, jobs: 50)
        case .coreHundred: return try core(deliveriesPerJob: 100, jobs: 4)
        case .client:
            var work = try ClientWork.begin()
            return try work.run(turns: Self.turns, batches: 4)
        }
    }

    private func core(deliveriesPerJob: Int, jobs: Int) throws -> Int {
        var work = try CoreWork(deliveriesPerJob: deliveriesPerJob)
        return try work.run(turns: Self.turns, jobs: jobs)
    }
}

/// The work did not have the result that it always has.
struct UnexpectedResult: Error, CustomStringConvertible {
    let description: String
}

/// The content of every job: ordinary alerts.
enum Content {
    static let topic = "com.example.shop"
    /// UNIX milliseconds.
    static let now: Int64 = 1_782_214_200_250
    static let payload = Array(#"{"aps":{"alert":"\#(String(repeating: "x", count: 180))"}}"#.utf8)

    static func app() throws -> AppSlug {
        guard let app = AppSlug("shop") else { throw UnexpectedResult(description: "the app's name is no name") }
        return app
    }

    /// Its key is another one in each run: what it signs is not counted.
    static func credential() throws -> APNsCredential {
        APNsCredential(name: "shop", kind: .token(teamID: "TEAM123456", keyID: "KEY1234567", key: try ES256PrivateKey.generate()))
    }

    static func token(_ number: UInt64) throws -> DeviceToken {
        var random = FixedRandom(seed: number)
        guard let token = DeviceToken(bytes: (0..<32).map { _ in UInt8.random(in: .min ... .max, using: &random) }) else {
            throw UnexpectedResult(description: "32 bytes are no token")
        }
        return token
    }

    static func id(_ number: UInt64) -> PushID {
        var random = FixedRandom(seed: ~number)
        return PushID(high: random.next(), low: random.next())
    }
}

/// SplitMix64 (Steele, Lea and Flood, 2014): the same numbers in every run.
struct FixedRandom: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }
}
