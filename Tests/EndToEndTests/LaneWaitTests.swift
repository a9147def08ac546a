import Postgres
import PushAPI
import StrictJSON
import TestDatabase
import TestSupport
import Testing

@Suite("How long a lane's oldest job waits, as the token service shows it", .timeLimit(.minutes(5)))
struct LaneWaitTests {
    @Test("The wait grows while no dispatcher runs, also across a restart of the token service, and ends with the first answers")
    func noDispatcher() async throws {
        try await withPlatform { platform in
            try await platform.startSimulator()
            let first = try await platform.startTokenService()
            try await Client.with(platform, first) { client in
                _ = try await client.registerDevices(2, user: "ada")
                #expect(try await Self.gauge("wait", of: "now", first, platform) == 0)
                #expect(try await Self.gauge("slack", of: "now", first, platform) == 86_400)
                _ = try await client.send("waits", to: "ada", ttlSeconds: 600)
            }
            _ = try await eventually("the job has waited for three seconds") {
                try await Self.gauge("wait", of: "now", first, platform) >= 3 ? true : nil
            }
            #expect(try await Self.gauge("slack", of: "now", first, platform) <= 597)
            #expect(try await Self.gauge("wait", of: "bulk", first, platform) == 0)
            await first.process.killAndWait()

            // It has published nothing itself.
            let second = try await platform.startTokenService()
            _ = try await eventually("the new process knows how long the job has waited") {
                try await Self.gauge("wait", of: "now", second, platform) >= 3 ? true : nil
            }
            try await platform.startDispatcher()
            _ = try await eventually("nothing waits any more") {
                try await Self.gauge("wait", of: "now", second, platform) == 0 ? true : nil
            }
            #expect(try await Self.gauge("slack", of: "now", second, platform) == 86_400)
        }
    }

    /// A refused key puts the jobs of its app into delayed queues. A further dispatcher would not help them.
    @Test("Jobs that wait for a credential do not count as waiting for a dispatcher") func brokenKey() async throws {
        try await withPlatform { platform in
            try await platform.startSimulator()
            let service = try await platform.startTokenService()
            try await platform.startDispatcher()
            try await Client.with(platform, service) { client in
                try await client.simulator.put("/v1/keys/DEMO123456") { $0.field("state", "revoked") }
                _ = try await client.registerDevices(1, user: "ada")
                _ = try await client.send("waits for a key", to: "ada")
                _ = try await eventually("the attempt was refused") {
                    try await platform.database.session {
                        try $0.count("SELECT count(*) FROM receipts WHERE last_class = 'misconfigured'") == 1 ? true : nil
                    }
                }
                _ = try await eventually("nothing waits for a dispatcher") {
                    try await Self.gauge("wait", of: "now", service, platform) == 0 ? true : nil
                }
            }
        }
    }

    private static func gauge(_ name: String, of lane: String, _ service: RunningService, _ platform: Platform) async throws -> Double {
        let (ending, page) = try await platform.shell("curl -fsS '\(service.url)/metrics'")
        try #require(ending == .exited(0), "\(page)")
        let series = "push_token_service_lane_\(name)_seconds{lane=\"\(lane)\"} "
        let line = try #require(page.split(separator: "\n").first { $0.hasPrefix(series) }, "there is no \(series)")
        return try #require(Double(line.dropFirst(series.count)))
    }
}
