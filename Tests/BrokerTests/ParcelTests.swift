import PushModel
import ServiceLifecycleTestKit
import TestBroker
import TestSupport
import Testing

@testable import Broker
@testable import RabbitMQ

@Suite("A parcel", .timeLimit(.minutes(5)))
struct ParcelTests {
    @Test func givesEachPartItsPropertiesAndBody() throws {
        let parts = [
            RabbitMQMessage(
                exchange: "e", routingKey: "k", messageID: Array("one".utf8), contentType: "application/x",
                headers: ["traceparent": "00-ä-01", "b": ""],
                body: [1, 2, 3]),
            RabbitMQMessage(exchange: "e", routingKey: "k", messageID: [], contentType: "", body: []),
            RabbitMQMessage(
                exchange: "e", routingKey: "k", messageID: Array("three".utf8), contentType: "y", body: [UInt8](repeating: 7, count: 70_000)
            ),
        ]
        let packed = Parcel.packed(parts)
        #expect(packed.contentType == Parcel.contentType)
        #expect(packed.messageID == parts[0].messageID)
        let unpacked = try #require(Parcel.parts(of: packed.body))
        #expect(unpacked.map(\.body) == parts.map(\.body))
        #expect(unpacked.map(\.properties.messageID) == ["one", "", "three"])
        #expect(unpacked.map(\.properties.contentType) == ["application/x", "", "y"])
        #expect(unpacked.map { $0.properties.headers.compactMapValues(\.string) } == parts.map(\.headers))
    }

    @Test func isReadFromNoBytesThatAreNone() throws {
        let part = RabbitMQMessage(exchange: "e", routingKey: "k", messageID: [65], contentType: "x", headers: ["h": "v"], body: [1, 2])
        let body = Parcel.packed([part, part]).body
        let middle = 1 + (body.count - 1) / 2
        for end in body.indices where end != middle { #expect(Parcel.parts(of: Array(body[..<end])) == nil) }
        #expect(Parcel.parts(of: Array(body[..<middle]))?.count == 1)
        #expect(Parcel.parts(of: [2] + body.dropFirst()) == nil)
        #expect(Parcel.parts(of: Parcel.packed([RabbitMQMessage](repeating: part, count: Parcel.maximumParts + 1)).body) == nil)
        var random = SplitMix(seed: 1)
        for _ in 0..<100_000 {
            var broken = body
            broken[random.next(below: broken.count)] = UInt8(random.next(below: 256))
            _ = Parcel.parts(of: broken)?.map { ($0.properties.messageID, $0.properties.headers) }
        }
    }

    @Test func carriesSmallMessagesOfOneCompany() async throws {
        try await withTestBroker { configuration, topology in
            let messages = (0..<40).map { number in
                OutgoingMessage.job(topology, headers: ["number": String(number)], body: [UInt8(number)], company: "shop")
            }
            try await publish(messages, configuration, topology)
            #expect(try await TestBroker.messageCount(topology.jobQueue(.now), configuration) == 3)
            let watching = try Watching(configuration, topology, [Subscription(queue: topology.jobQueue(.now), prefetch: 200)])
            try await whileRunning(watching.consumer) {
                let received = try await watching.take(40)
                #expect(received.map(\.messageID) == messages.map(\.messageID))
                #expect(received.map(\.body) == messages.map(\.body))
                #expect(received.map(\.headers) == messages.map(\.headers))
                #expect(received.map(\.contentType) == messages.map(\.contentType))
                #expect(received.map { $0.parcel?.earlierDeliveries } == [Int64?](repeating: 0, count: 40))
            }
        }
    }

    @Test func carriesNobodyElse() async throws {
        try await withTestBroker { configuration, topology in
            let large = [UInt8](repeating: 1, count: Parcel.maximumBytes / 2 + 1)
            let messages: [OutgoingMessage] = [
                .job(topology, company: "a"), .job(topology, company: "b"), .job(topology), .job(topology),
                .job(topology, .soon, company: "b"), .job(topology, company: "b"), .job(topology, body: large, company: "b"),
                .job(topology, body: large, company: "b"),
            ]
            try await publish(messages, configuration, topology)
            // The small one of the last three goes with the first large one.
            #expect(try await TestBroker.messageCount(topology.jobQueue(.now), configuration) == 6)
            #expect(try await TestBroker.messageCount(topology.jobQueue(.soon), configuration) == 1)
        }
    }

    @Test func isAnUnroutableOneForAllOfItsParts() async throws {
        try await withTestBroker { configuration, topology in
            let publisher = try makePublisher(configuration, topology)
            try await whileRunning(publisher) {
                var lost = OutgoingMessage.job(topology, company: "shop")
                lost.routingKey = "nowhere"
                let outcomes = await publisher.publish(
                    [.job(topology, company: "shop"), lost, lost, lost, .job(topology, company: "shop")], deadline: nil)
                #expect(outcomes.map(\.isConfirmed) == [true, false, false, false, true])
                #expect(outcomes[2] == .failed(.unroutable))
            }
        }
    }

    @Test func comesAgainWhereNotAllOfItIsSettled() async throws {
        try await withTestBroker { configuration, topology in
            let queue = Subscription(queue: topology.jobQueue(.now), prefetch: 200)
            try await publish((0..<40).map { .job(topology, body: [$0], company: "shop") }, configuration, topology)
            let first = try Watching(configuration, topology, [queue], drainTimeout: .zero)
            try await testGracefulShutdown { trigger in
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { try await first.consumer.run() }
                    let received = try await first.messages.next(40)
                    first.consumer.acknowledge(received.filter { $0.body != [20] }.shuffled().map(\.receipt))
                    trigger.triggerGracefulShutdown()
                    try await group.waitForAll()
                }
            }
            let again = try Watching(configuration, topology, [queue])
            try await whileRunning(again.consumer) {
                let received = try await again.take(Parcel.maximumParts)
                #expect(received.map { $0.body[0] } == Array(16..<32))
                #expect(received.map { $0.parcel?.earlierDeliveries } == [Int64?](repeating: 1, count: 16))
            }
            #expect(try await TestBroker.messageCount(topology.jobQueue(.now), configuration) == 0)
        }
    }

    @Test func goesBackWhenOneOfItsPartsDoes() async throws {
        try await withTestBroker { configuration, topology in
            try await publish((0..<3).map { .job(topology, body: [$0], company: "shop") }, configuration, topology)
            let watching = try Watching(configuration, topology, [Subscription(queue: topology.jobQueue(.now), prefetch: 200)])
            try await whileRunning(watching.consumer) {
                let received = try await watching.messages.next(3)
                watching.consumer.giveBack([received[1].receipt])
                watching.consumer.acknowledge([received[0].receipt, received[2].receipt])
                #expect(try await watching.take(3).map(\.body) == [[0], [1], [2]])
            }
        }
    }

    /// Before the publisher runs, so that they wait for the broker together.
    private func publish(_ messages: [OutgoingMessage], _ configuration: RabbitMQConfiguration, _ topology: Topology) async throws {
        let publisher = try makePublisher(configuration, topology)
        let outcomes = Signal<[PublishOutcome]>()
        publisher.publish(messages) { outcomes.send($0) }
        let answered = try await whileRunning(publisher) { try await outcomes.next() }
        #expect(answered == [PublishOutcome](repeating: .confirmed, count: messages.count))
    }
}
