import APNs
import APNsSimulator
import Dispatcher
import PushModel
import SystemIO
import TestSupport
import Testing

/// Promise 9 (docs/promises.md).
@Suite("Lanes between a real broker and Apple's protocol", .timeLimit(.minutes(5)))
struct LaneServiceTests {
    private static let each = 20
    /// More than the prefetch of its lane, and more deliveries than the connection has streams for it.
    private static let bulkJobs = 150

    private static func job(_ deliveries: [PushJob.Delivery], lane: Lane) -> PushJob {
        var job = Fixture.job(deliveries, lane: lane)
        job.notification = .random()
        job.acceptedAt = WallClock.milliseconds()
        job.expiresAt = job.acceptedAt + 3_600_000
        return job
    }

    @Test("The dispatcher sends and settles jobs of `now` while unanswered `bulk` fills its prefetch, the pool and the streams")
    func nowDoesNotWaitForBulk() async throws {
        let count = Self.bulkJobs * Self.each
        try await withServiceBench { bench in
            // The first delivery proves the connection.
            for number in 1..<count { try bench.simulator.script(Fixture.token(number).hex, [.silence]) }
            let dispatcher = try bench.startDispatcher {
                $0.bulkDeliveries = 20_000
                $0.shutdownDeadline = .seconds(5)
            } pools: {
                $0.requestTimeout = .seconds(240)
            }
            try await bench.publish(
                (0..<Self.bulkJobs).map { job in
                    Self.job((0..<Self.each).map { Fixture.delivery(job * Self.each + $0) }, lane: .bulk)
                })
            // The share of a connection's streams for bulk. The others are for urgent jobs.
            _ = await bench.simulator.journal(reaching: 900)
            let urgent = (0..<5).map { Fixture.delivery(count + $0) }
            for delivery in urgent { try await bench.publish(Self.job([delivery], lane: .now)) }
            var accepted: Set<PushID> = []
            while !accepted.isSuperset(of: urgent.map(\.id)) {
                let event = try await bench.events.next()
                // Requests that time out would make room, and the test would prove nothing.
                #expect(event.outcome == .accepted, "bulk requests timed out before the urgent jobs came through")
                accepted.formUnion(event.deliveries.map(\.id))
            }
            // The outcome of the delivery that proved the connection may come before or after them.
            #expect(accepted.subtracting(urgent.map(\.id)).isSubset(of: [Fixture.delivery(0).id]))
            try await dispatcher.stop()
        }
    }

    /// Promise 10 (docs/promises.md).
    @Test("While APNs answers none of one app's pushes, another app's jobs of the same lane and pool are sent and settled")
    func appsShareALane() async throws {
        let silent = 40
        try await withServiceBench { bench in
            // The first proves the connection.
            for number in 1..<silent { try bench.simulator.script(Fixture.token(number).hex, [.silence]) }
            let dispatcher = try bench.startDispatcher {
                $0.prefetch[.now] = 16
                $0.shutdownDeadline = .seconds(5)
            } pools: {
                $0.requestTimeout = .seconds(240)
            }
            try await bench.publish((0..<silent).map { Self.job([Fixture.delivery($0)], lane: .now) })
            // Half of the prefetch is at work, the rest of it waits, and so do the others in the broker.
            _ = await bench.simulator.journal(reaching: 9)
            let cafe = try (0..<3).map { number in
                var job = Self.job([Fixture.delivery(silent + number)], lane: .now)
                job.app = try #require(AppSlug("cafe"))
                return job
            }
            try await bench.publish(cafe)
            var accepted: Set<PushID> = []
            while !accepted.isSuperset(of: cafe.flatMap(\.deliveries).map(\.id)) {
                let event = try await bench.events.next()
                // A push that is given up would make room, and prove nothing.
                #expect(event.outcome == .accepted, "the silent app's pushes were given up before the other app's came through")
                accepted.formUnion(event.deliveries.map(\.id))
            }
            try await dispatcher.stop()
        }
    }

    @Test("A dispatcher takes jobs of its lanes only; the others wait in the broker for one that serves them") func lanes() async throws {
        try await withServiceBench { bench in
            let urgent = try bench.startDispatcher { $0.lanes = [.now, .soon] }
            try await bench.publish(Self.job([Fixture.delivery(1)], lane: .bulk))
            for (number, lane) in [(2, Lane.now), (3, .soon)] {
                try await bench.publish(Self.job([Fixture.delivery(number)], lane: lane))
                let event = try await bench.events.next()
                #expect(event.deliveries.map(\.id) == [Fixture.delivery(number).id])
            }
            #expect(try await bench.waitingJobs() == 1)
            let bulk = try bench.startDispatcher { $0.lanes = [.bulk] }
            let event = try await bench.events.next()
            #expect(event.deliveries.map(\.id) == [Fixture.delivery(1).id])
            try await urgent.stop()
            try await bulk.stop()
            #expect(try await bench.waitingJobs() == 0)
        }
    }
}
