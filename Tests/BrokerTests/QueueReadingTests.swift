import Broker
import PushModel
import RabbitMQ
import Synchronization
import TestBroker
import TestSupport
import Testing

@Suite("Reading a queue without taking anything away", .timeLimit(.minutes(5)))
struct QueueReadingTests {
    private func fill(_ configuration: RabbitMQConfiguration, _ topology: Topology, _ count: Int) async throws {
        let publisher = try makePublisher(configuration, topology)
        try await whileRunning(publisher) {
            let messages = (0..<count).map { number in
                OutgoingMessage(
                    exchange: topology.deadExchange, routingKey: "now", messageID: .random(), contentType: "application/test",
                    body: Array("\(number)".utf8))
            }
            #expect(await publisher.publish(messages, deadline: nil).allSatisfy(\.isConfirmed))
        }
    }

    private func number(_ message: ReceivedMessage) -> Int { Int(String(decoding: message.body, as: UTF8.self)) ?? -1 }

    private func reading(_ configuration: RabbitMQConfiguration, _ topology: Topology, limit: Int = 1000) -> QueueReading {
        QueueReading(queue: topology.deadQueue, configuration: configuration, limit: limit)
    }

    private func numbers(_ configuration: RabbitMQConfiguration, _ topology: Topology) async throws -> [Int] {
        try await reading(configuration, topology).read(wanting: { _ in true }) { ($0.messages.map(number), []) }
    }

    @Test("Every message stays in its order after many readings") func staysInOrder() async throws {
        try await withTestBroker { configuration, topology in
            try await fill(configuration, topology, 300)
            for _ in 0..<4 { #expect(try await numbers(configuration, topology) == Array(0..<300)) }
        }
    }

    @Test("A reading removes the taken messages and keeps the order of the others") func takesSome() async throws {
        try await withTestBroker { configuration, topology in
            try await fill(configuration, topology, 200)
            let taken = try await reading(configuration, topology).read(wanting: { number($0).isMultiple(of: 3) }) { snapshot in
                #expect(snapshot.seen == 200 && snapshot.isComplete)
                return (snapshot.messages.map(number), snapshot.messages.map(\.deliveryTag))
            }
            #expect(taken == (0..<200).filter { $0.isMultiple(of: 3) })
            let left = try await numbers(configuration, topology)
            #expect(left == (0..<200).filter { !$0.isMultiple(of: 3) })
        }
    }

    struct Failure: Error {}

    @Test("A reader that fails takes nothing") func failingReader() async throws {
        try await withTestBroker { configuration, topology in
            try await fill(configuration, topology, 100)
            await #expect(throws: Failure.self) {
                try await reading(configuration, topology).read(wanting: { _ in true }) { _ -> (Int, [DeliveryTag]) in throw Failure() }
            }
            #expect(try await numbers(configuration, topology) == Array(0..<100))
        }
    }

    @Test("A reader whose connection dies midway loses and reorders nothing", arguments: [0, 37, 99])
    func cutMidway(at moment: Int) async throws {
        try await withProxiedBroker { direct, proxied, topology, proxy in
            try await fill(direct, topology, 100)
            await #expect(throws: (any Error).self) {
                try await reading(proxied, topology).read(wanting: { message in
                    if number(message) == moment { proxy.cut() }
                    return true
                }) { snapshot in
                    // If the reader gets so far, it takes all messages, but its acknowledgements do not arrive.
                    proxy.cut()
                    return ((), snapshot.messages.map(\.deliveryTag))
                }
            }
            let left = try await eventuallyEqual(Array(0..<100)) { try await numbers(direct, topology) }
            #expect(left == Array(0..<100))
        }
    }

    /// The broker notices the dead connection a moment later. Until then it refuses another reader.
    private func eventuallyEqual(_ wanted: [Int], _ read: () async throws -> [Int]) async throws -> [Int] {
        while true {
            do {
                let numbers = try await read()
                if numbers == wanted { return numbers }
                if numbers.count == wanted.count { return numbers }
            } catch is QueueIsBeingRead { await Task.yield() }
        }
    }

    @Test("The queue refuses a second reader, which disturbs nothing") func secondReader() async throws {
        try await withTestBroker { configuration, topology in
            try await fill(configuration, topology, 50)
            try await reading(configuration, topology).read(wanting: { _ in true }) { snapshot in
                #expect(snapshot.messages.count == 50)
                await #expect(throws: QueueIsBeingRead.self) { try await numbers(configuration, topology) }
                return ((), [])
            }
            #expect(try await numbers(configuration, topology) == Array(0..<50))
        }
    }

    @Test("The limit bounds the number of messages that a reader sees") func seenLimit() async throws {
        try await withTestBroker { configuration, topology in
            try await fill(configuration, topology, 60)
            let seen = try await reading(configuration, topology, limit: 40).read(wanting: { number($0) < 10 }) { snapshot in
                #expect(!snapshot.isComplete)
                #expect(snapshot.messages.count == 10)
                return (snapshot.seen, [])
            }
            #expect(seen == 40)
            #expect(try await numbers(configuration, topology) == Array(0..<60))
        }
    }

    @Test("Reading an empty queue returns at once") func emptyQueue() async throws {
        try await withTestBroker { configuration, topology in
            let found = try await numbers(configuration, topology)
            #expect(found.isEmpty)
        }
    }
}
