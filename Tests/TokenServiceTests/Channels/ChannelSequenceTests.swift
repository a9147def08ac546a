import Postgres
import PushModel
import StrictJSON
import Synchronization
import TestSupport
import Testing
import TokenService

/// The promise of the registry: whatever is lost, in the end Apple has the channels that the registry says, and no others.
@Suite("Broadcast channels: random creates and deletes with lost answers", .serialized, .timeLimit(.minutes(5)))
struct ChannelSequenceTests {
    private static let path = "/v1/apps/shop/channels"
    private static let rounds = 6

    /// Half of the commands go wrong while it is on.
    private final class Trouble: Sendable {
        private let state: Mutex<(random: SeededGenerator, isOn: Bool)>

        init(seed: UInt64) { state = Mutex((SeededGenerator(seed: seed), true)) }

        func end() { state.withLock { $0.isOn = false } }

        func fault() -> AppleChannels.Fault {
            let faults: [AppleChannels.Fault] = [
                .answerLost, .commandLost, .unanswered, .unansweredAndUndone, .late, .repeated, .refused(429, "TooManyRequests"),
                .refused(500, "InternalServerError"), .noCredential,
            ]
            return state.withLock { state in
                guard state.isOn, Bool.random(using: &state.random) else { return .nothing }
                return faults.randomElement(using: &state.random) ?? .nothing
            }
        }
    }

    @Test("Apple has the registry's channels in the end", arguments: [1, 2] as [UInt64]) func sameInTheEnd(seed: UInt64)
        async throws
    {
        let trouble = Trouble(seed: seed)
        let apple = AppleChannels { _ in trouble.fault() }
        let foreign = Dictionary(
            uniqueKeysWithValues: APNsEnvironment.allCases.map { ($0, Set([apple.make(in: $0), apple.make(.latest, in: $0)])) })
        let options = RunningService.Options(
            settings: ["CHANNELS_COMMAND_TIMEOUT_MS": "100", "CHANNELS_LIST_INTERVAL_SECONDS": "1"])
        try await RunningService.run(options) { running in
            let shop = try await running.client.makeApp()
            try await apple.serve(running) {
                let wanted = try await withThrowingTaskGroup(of: (String, APNsEnvironment?).self) { group in
                    for number in 0..<8 {
                        let environment = APNsEnvironment.allCases[number % 2]
                        group.addTask { (Self.name(number), try await Self.live(number, seed, environment, shop) ? environment : nil) }
                    }
                    return try await group.reduce(into: [:]) { $0[$1.0] = .some($1.1) }
                }
                trouble.end()
                try await Self.expectEqual(apple, wanted, foreign, running)
            }
        }
    }

    private static func name(_ number: Int) -> String { "game-\(number)" }

    /// Creates and deletes one channel by turns.
    /// - Returns: whether it is wanted in the end.
    private static func live(_ number: Int, _ seed: UInt64, _ environment: APNsEnvironment, _ shop: APITestClient) async throws -> Bool {
        var random = SeededGenerator(seed: seed &* 1000 &+ UInt64(number))
        let storage = ["none", "latest"][number / 2 % 2]
        var isWanted = false
        for _ in 0..<rounds {
            isWanted = Int.random(in: 0..<5, using: &random) > 1
            if isWanted {
                _ = try await eventually { () -> Bool? in
                    let answer = try await shop.put(
                        "\(path)/\(name(number))", #"{"environment":"\#(environment.rawValue)","storage":"\#(storage)"}"#)
                    if answer.status < 300 { return true }
                    #expect(["channel_deleting", "channel_lost"].contains(answer.code), "\(answer.code ?? "?")")
                    if answer.code == "channel_lost" { _ = try await shop.delete("\(path)/\(name(number))") }
                    return nil
                }
            } else {
                #expect(try await shop.delete("\(path)/\(name(number))").status < 300)
            }
        }
        return isWanted
    }

    private static func expectEqual(
        _ apple: AppleChannels, _ wanted: [String: APNsEnvironment?], _ foreign: [APNsEnvironment: Set<String>], _ running: RunningService
    ) async throws {
        // Until nothing is under way, and each plan was listed once more after that.
        _ = try await eventually {
            try await running.count("SELECT count(*) FROM channels WHERE state IN ('creating', 'deleting')") == 0 ? true : nil
        }
        try await running.execute("UPDATE channel_scopes SET listed_at = 'epoch', list_from = now(), due_at = now() WHERE command IS NULL")
        _ = try await eventually {
            try await running.count(
                """
                SELECT (SELECT count(*) FROM channels WHERE state IN ('creating', 'deleting'))
                    + (SELECT count(*) FROM channel_scopes WHERE listed_at = 'epoch') AS count
                """
            ) == 0 ? true : nil
        }
        for environment in APNsEnvironment.allCases {
            let rows = try await running.pool.session { session in
                try session.execute("SELECT name, apple_id, state FROM channels WHERE environment = \(environment)").map {
                    (name: try $0["name"] as String?, id: try $0["apple_id"] as String?, state: try $0["state"] as String)
                }
            }
            #expect(Set(rows.compactMap(\.id)) == Set(apple.channels(environment).keys), "\(rows)")
            #expect(Set(rows.filter { $0.state == "open" }.compactMap(\.name)) == Set(wanted.filter { $0.value == environment }.keys))
            let foreignRows = Set(rows.filter { $0.state == "foreign" }.compactMap(\.id))
            #expect(foreignRows == foreign[environment], "foreign channels: \(foreignRows)")
            #expect(rows.allSatisfy { ["open", "foreign"].contains($0.state) }, "\(rows)")
        }
    }
}
