import Broker
import PushModel
import RabbitMQ
import TestBroker
import TestSupport
import Testing

@Suite("A publisher whose connection breaks", .timeLimit(.minutes(5)))
struct PublisherFaultTests {
    @Test func losesNothingThroughManyCuts() async throws {
        try await withProxiedBroker { direct, proxied, topology, proxy in
            let publisher = try makePublisher(proxied, topology)
            let outcomes = Signal<[PublishOutcome]>()
            var ids: Set<PushID> = []
            try await whileRunning(publisher) {
                for _ in 0..<6 {
                    for _ in 0..<10 {
                        let some = (0..<40).map { _ in PushID.random() }
                        ids.formUnion(some)
                        publisher.publish(some.map { .job(topology, id: $0, body: [UInt8](repeating: 9, count: 2000)) }) {
                            outcomes.send($0)
                        }
                    }
                    // In the middle of the confirms of this round.
                    let first = try await outcomes.next()
                    proxy.cut()
                    let others = try await outcomes.next(9)
                    let failed = (others + [first]).joined().filter { !$0.isConfirmed }
                    #expect(failed.isEmpty)
                }
            }
            #expect(proxy.accepted.waiting.count >= 4, "the cuts did not make it connect anew")
            #expect(try await stored(direct, topology, atLeast: ids) == ids)
        }
    }

    @Test func publishesAgainWithTheSameIDWhatWasNotConfirmed() async throws {
        try await withProxiedBroker { direct, proxied, topology, proxy in
            let publisher = try makePublisher(proxied, topology)
            let watching = try Watching(direct, topology, [Subscription(queue: topology.jobQueue(.now), prefetch: 100)])
            let outcomes = Signal<[PublishOutcome]>()
            try await whileRunning(publisher, watching.consumer) {
                #expect(await publisher.publish([.job(topology)], deadline: nil) == [.confirmed])
                _ = try await watching.take()
                // The broker hears us and stores; its confirms do not come back.
                proxy.set(.deafClient)
                let ids = (0..<50).map { _ in PushID.random() }
                publisher.publish(ids.map { .job(topology, id: $0) }) { outcomes.send($0) }
                #expect(try await watching.take(50).compactMap(\.messageID) == ids)
                // A consumer may have a message before its publisher has the confirm.
                _ = try await proxy.losses.next()
                #expect(outcomes.waiting.isEmpty)
                proxy.set(.forwarding)
                #expect(try await outcomes.next() == [PublishOutcome](repeating: .confirmed, count: 50))
                #expect(try await watching.take(50).compactMap(\.messageID) == ids)
            }
        }
    }

    @Test func noticesANetworkThatIsGoneWithoutSayingSo() async throws {
        try await withProxiedBroker(heartbeat: .seconds(2)) { direct, proxied, topology, proxy in
            let publisher = try makePublisher(proxied, topology)
            let ids = (0..<20).map { _ in PushID.random() }
            try await whileRunning(publisher) {
                #expect(await publisher.publish([.job(topology, id: ids[0])], deadline: nil) == [.confirmed])
                _ = try await proxy.accepted.next()
                proxy.set(.blackHole)
                let outcomes = Signal<[PublishOutcome]>()
                publisher.publish(ids.dropFirst().map { .job(topology, id: $0) }) { outcomes.send($0) }
                // A second connection means that the first one was given up: two heartbeats without a sign of life.
                _ = try await proxy.accepted.next()
                #expect(publisher.state == .connecting)
                #expect(outcomes.waiting.isEmpty)
                proxy.set(.forwarding)
                #expect(try await outcomes.next().allSatisfy(\.isConfirmed))
            }
            #expect(try await stored(direct, topology, atLeast: Set(ids)) == Set(ids))
        }
    }

    @Test func isFreedByItsWatchdogFromAWriteThatHangs() async throws {
        try await withProxiedBroker { direct, proxied, topology, proxy in
            var patient = proxied
            // The heartbeat must not be what ends the hanging.
            patient.heartbeat = .seconds(60)
            let publisher = try makePublisher(patient, topology, watchdogLimit: .seconds(1))
            let outcomes = Signal<[PublishOutcome]>()
            try await whileRunning(publisher) {
                #expect(await publisher.publish([.job(topology, .bulk)], deadline: nil) == [.confirmed])
                _ = try await proxy.accepted.next()
                proxy.set(.paused)
                // More than the socket buffers of both hops hold together.
                publisher.publish([.job(topology, .bulk, body: [UInt8](repeating: 1, count: 48 << 20))]) { outcomes.send($0) }
                // The watchdog cuts, and the publisher comes again. TCP_USER_TIMEOUT would have taken fifteen seconds.
                let start = ContinuousClock.now
                _ = try await proxy.accepted.next()
                #expect(start.duration(to: .now) < .seconds(14))
            }
            #expect(outcomes.waiting == [[.failed(.stopped)]])
        }
    }

    /// Everything in the `now` lane: taken until all of `ids` are there and nothing is left.
    private func stored(_ configuration: RabbitMQConfiguration, _ topology: Topology, atLeast ids: Set<PushID>) async throws -> Set<PushID>
    {
        let ready = try await TestBroker.messageCount(topology.jobQueue(.now), configuration)
        let watching = try Watching(configuration, topology, [Subscription(queue: topology.jobQueue(.now), prefetch: 500)])
        return try await whileRunning(watching.consumer) {
            let taken = try await watching.take(max(ready, ids.count))
            return Set(taken.compactMap(\.messageID))
        }
    }
}
