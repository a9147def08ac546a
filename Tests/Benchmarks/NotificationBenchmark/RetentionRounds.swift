import BenchmarkSupport
import Foundation
import Synchronization

/// Acceptance alone, and while a period with many receipts is dropped: by the function that the housekeeping calls, as often as it takes.
struct RetentionRounds {
    /// The housekeeping's default.
    private static let retention = "interval '30 days'"

    private let platform: PlatformUnderTest
    private let audience: Audience
    private let requests: Int
    private let receipts: Int

    init(_ platform: PlatformUnderTest, _ audience: Audience, requests: Int, receipts: Int) {
        self.platform = platform
        self.audience = audience
        self.requests = requests
        self.receipts = receipts
    }

    private struct Sample {
        var alone: LoadGenerator.Result
        var beside: LoadGenerator.Result
        /// Seconds.
        var removal: Double
    }

    func measures(_ rounds: Int) throws -> [Measure] {
        progress("retention: \(receipts) receipts go while \(AcceptRounds.clients) clients send")
        let key = platform.key(of: Audience.bulkApp)
        let load = LoadGenerator(address: platform.address, connections: AcceptRounds.clients)
        let posts = (0..<requests).map { audience.toUser($0, key: key) }
        platform.stopDispatchers()
        defer { platform.resumeDispatchers() }
        let samples = try alternate(rounds) { () -> (Sample, String) in
            try fill()
            func send() throws -> LoadGenerator.Result {
                let result = try load.run(posts)
                try platform.waitUntilPublished()
                // With a million messages, the broker takes new ones more slowly.
                try platform.forgetMessages()
                return result
            }
            let alone = try send()
            let removal = Removal(platform.database)
            let beside = try send()
            let sample = Sample(alone: alone, beside: beside, removal: try removal.seconds())
            let (before, during) = (milliseconds(alone.percentile(0.99)), milliseconds(beside.percentile(0.99)))
            let text = "gone in \(milliseconds(sample.removal)); p99 \(before) before, \(during) meanwhile; \(Int(beside.rate))/s"
            return (sample, text)
        }
        try platform.forget()
        func p99(_ results: [LoadGenerator.Result]) -> Double { median(results.map { $0.percentile(0.99) }) * 1000 }
        return [
            Measure(
                name: "retention: accept p99 while \(receipts) receipts go", value: p99(samples.map(\.beside)), unit: "ms",
                baseline: "nothing goes", baselineValue: p99(samples.map(\.alone)), bar: .ratioAtMost(1.5)),
            Measure(
                name: "retention: until they are gone", value: median(samples.map(\.removal)), unit: "s", baseline: "the bar",
                baselineValue: 60, bar: .ratioAtMost(1)),
        ]
    }

    /// Makes an old period and fills it with receipts of two deliveries for each notification.
    private func fill() throws {
        try platform.database.psql(
            """
            SELECT new_partition(table_name, table_name || '_passed') FROM partitioned_tables WHERE family = 'notifications';
            INSERT INTO receipts_passed (notification, number, position, token_id, installation, owner_epoch, environment, class, status,
                updated_at)
            SELECT overlay(first_id_at(now() - interval '60 days' + n * interval '1 millisecond')::text PLACING lpad(to_hex(n), 12, '0')
                FROM 25)::uuid,
                0, m, n, md5(n::text)::uuid, 1, 'production', 'accepted', 200, now()
            FROM generate_series(1, \(receipts / 2)) AS n, generate_series(0, 1) AS m;
            SELECT attach_partition(t, table_name || '_passed', now() - interval '61 days', now() - interval '40 days')
            FROM partitioned_tables t WHERE family = 'notifications';
            CHECKPOINT
            """)
    }

    /// Begins after half a second, on its own thread.
    private final class Removal: Sendable {
        private let done = DispatchSemaphore(value: 0)
        private let result = Mutex<Result<Double, any Error>>(.success(0))

        init(_ database: Database) {
            Thread.detachNewThread { [self] in
                Thread.sleep(forTimeInterval: 0.5)
                let start = ContinuousClock.now
                result.withLock {
                    $0 = Result {
                        // A table in each call.
                        let drop = "SELECT count(*) FROM drop_partition('notifications', \(RetentionRounds.retention), now())"
                        while try database.integer(drop) > 0 {}
                        let seconds = (ContinuousClock.now - start) / .seconds(1)
                        let left = try database.integer("SELECT count(*) FROM partitions WHERE name LIKE '%\\_passed'")
                        guard left == 0 else { throw BenchmarkError("\(left) tables of the old period are not dropped") }
                        return seconds
                    }
                }
                done.signal()
            }
        }

        func seconds() throws -> Double {
            done.wait()
            return try result.withLock { try $0.get() }
        }
    }
}
