import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenService

/// What it takes to engage an app's brake.
struct Brake {
    let running: RunningService
    let shop: APITestClient
    /// Of one notification to as many installations, in their order.
    let job: PushJob

    /// Installations 1 to `count`, all of one user, and a notification to them.
    init(_ running: RunningService, count: Int) async throws {
        let shop = try await running.client.makeApp()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 1...count { group.addTask { try await shop.register(installation(number), user: "ada", token: token(number)) } }
            try await group.waitForAll()
        }
        var job = try await running.sendAndTake(#"{"user":"ada"}"#, with: shop)
        job.deliveries.sort { $0.installation < $1.installation }
        self.running = running
        self.shop = shop
        self.job = job
    }

    /// Reports some deliveries, one event for each `size`, and waits until they have their outcome.
    func report(_ outcome: OutcomeClass, _ range: Range<Int>, inEventsOf size: Int = 500) async throws {
        for start in stride(from: range.lowerBound, to: range.upperBound, by: size) {
            var part = job
            part.deliveries = Array(job.deliveries[start..<min(start + size, range.upperBound)])
            try await running.report(
                outcome, of: part, status: outcome == .accepted ? 200 : 400, reason: outcome == .accepted ? nil : "BadDeviceToken",
                sentAt: UnixClock.now())
        }
        let ids = job.deliveries[range].map(\.id)
        _ = try await eventually {
            try await running.count("SELECT count(*) FROM deliveries WHERE class IS NOT NULL AND id = ANY (\(ids)::uuid[])")
                == ids.count ? true : nil
        }
    }

    /// Twenty tokens retired, then found unjust by five more.
    static func engaged(_ running: RunningService, count: Int = 25) async throws -> Brake {
        let brake = try await Brake(running, count: count)
        try await brake.report(.tokenRejected, 0..<20)
        try await brake.report(.tokenRejected, 20..<count)
        return brake
    }

    func states() async throws -> [String: Int64] {
        [
            "active": try await running.count("SELECT count(*) FROM tokens WHERE state = 'active'"),
            "quarantined": try await running.count("SELECT count(*) FROM tokens WHERE quarantined_at IS NOT NULL"),
            "retired": try await running.count("SELECT count(*) FROM tokens WHERE state = 'retired' AND quarantined_at IS NULL"),
        ]
    }
}
