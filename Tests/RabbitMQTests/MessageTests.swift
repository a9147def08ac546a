import PushModel
import RabbitMQ
import Testing

@Suite("A message through the real broker", .timeLimit(.minutes(5)))
struct MessageTests {
    @Test("A message keeps every byte of its body", arguments: [0, 1, 131_064, 131_065, 1 << 20, 3 << 20])
    func keepsBody(count: Int) async throws {
        let body = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ $0 >> 8) }
        try await LiveConnection.use { live in
            try live.connection.selectConfirms()
            try live.publish(body)
            try live.awaitConfirms(upTo: 1)
            try live.connection.limitUnacknowledged(10)
            try live.connection.consume(queue: live.queue, consumer: 0)
            let delivery = try live.nextDelivery()
            #expect(delivery.body == body)
            #expect(!delivery.isOversized)
            try live.connection.acknowledge(delivery.tag, multiple: false)
        }
    }

    @Test("A connection drops the body of a message that is too large and keeps the next") func tooLarge() async throws {
        try await LiveConnection.use(configure: { $0.maximumBodyBytes = 200_000 }) { live in
            try live.publish([UInt8](repeating: 7, count: 200_001))
            try live.publish([UInt8](repeating: 8, count: 200_000))
            try live.connection.consume(queue: live.queue, consumer: 3)
            let large = try live.nextDelivery()
            #expect(large.isOversized)
            #expect(large.body.isEmpty)
            let next = try live.nextDelivery()
            #expect(next.body.count == 200_000)
            #expect(next.tag == 2)
            #expect(next.consumer == 3)
        }
    }

    @Test("A message keeps its properties and headers") func keepsProperties() async throws {
        let id = PushID.random()
        let headers = ["traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "ünï": "çödé", "empty": ""]
        try await LiveConnection.use { live in
            try live.publish([1], id: id, headers: headers)
            try live.connection.consume(queue: live.queue, consumer: 0)
            let delivery = try live.nextDelivery()
            #expect(delivery.properties.messageID == id.description)
            #expect(delivery.properties.contentType == "application/test")
            #expect(delivery.properties.headers == headers.mapValues { .string($0) })
            #expect(delivery.routingKey == live.queue)
            #expect(delivery.exchange.isEmpty)
            #expect(!delivery.isRedelivered)
        }
    }

    @Test("A connection refuses a message that it cannot encode and lives on") func cannotEncode() async throws {
        try await LiveConnection.use { live in
            let long = String(repeating: "x", count: 256)
            for (key, headers) in [(long, [:]), (live.queue, ["h": String(repeating: "y", count: 70_000)])] {
                #expect { try live.publish(key: key, headers: headers) } throws: { ($0 as? RabbitMQError)?.code == .invalidArgument }
            }
            try live.connection.selectConfirms()
            try live.publish(headers: ["h": String(repeating: "y", count: 65_000)])
            try live.awaitConfirms(upTo: 1)
        }
    }

    @Test("A message that reaches no queue comes back before its confirm") func comesBack() async throws {
        let id = PushID.random()
        try await LiveConnection.use { live in
            try live.connection.selectConfirms()
            try live.publish(id: id, key: "test-nowhere-\(id)")
            let first: RabbitMQEvent = try live.next { $0 }
            guard case .returned(let returned) = first else {
                Issue.record("expected the return first, got \(first)")
                return
            }
            #expect(returned.messageID == id.description)
            #expect(returned.replyCode == 312)
            #expect(returned.routingKey == "test-nowhere-\(id)")
            let second: RabbitMQEvent = try live.next { $0 }
            guard case .confirmed(tag: 1, multiple: _, channel: _) = second else {
                Issue.record("expected the confirm second, got \(second)")
                return
            }
        }
    }

    @Test("A full queue refuses a message") func fullQueue() async throws {
        let arguments: [String: RabbitMQValue] = ["x-queue-type": "quorum", "x-max-length": 3, "x-overflow": "reject-publish"]
        try await LiveConnection.use(queue: arguments) { live in
            try live.connection.selectConfirms()
            // One at a time, because the limit is soft for messages in flight together (docs/rabbitmq.md, Queues).
            for tag in 1...20 as ClosedRange<UInt64> {
                try live.publish()
                let isRefused = try live.next { event -> Bool? in
                    switch event {
                    case .confirmed(tag, _, _): false
                    case .refused(tag, _, _): true
                    default: nil
                    }
                }
                if isRefused { return }
            }
            Issue.record("twenty messages went into a queue of three")
        }
    }

    @Test("The broker delivers a message again whose connection ended before its acknowledgement") func deliveredAgain() async throws {
        try await LiveConnection.use(queue: ["x-queue-type": "quorum"]) { live in
            try live.publish([42])
            try live.connection.consume(queue: live.queue, consumer: 0)
            #expect(try !live.nextDelivery().isRedelivered)
            live.connection.breaker.shutDown()
            let other = try RabbitMQConnection.open(RabbitMQConfiguration(uri: testURI()))
            defer { other.close() }
            try other.consume(queue: live.queue, consumer: 0)
            let again = try LiveConnection.firstDelivery(on: other)
            #expect(again.body == [42])
            #expect(again.isRedelivered)
        }
    }

    @Test("An acknowledged message is gone, and a refused one comes back") func settling() async throws {
        try await LiveConnection.use(queue: ["x-queue-type": "quorum"]) { live in
            for byte in 1...4 as ClosedRange<UInt8> { try live.publish([byte]) }
            try live.connection.consume(queue: live.queue, consumer: 0)
            let deliveries = try (0..<4).map { _ in try live.nextDelivery() }
            #expect(deliveries.map(\.tag) == [1, 2, 3, 4])
            try live.connection.acknowledge(2, multiple: true)
            try live.connection.refuse(3, requeue: true)
            let again = try live.nextDelivery()
            #expect(again.body == [3])
            #expect(again.isRedelivered)
            try live.connection.acknowledge(4, multiple: false)
            try live.connection.refuse(again.tag, requeue: false)
            try live.connection.cancel(consumer: 0)
            #expect(try live.connection.messageCount(live.queue) == 0)
        }
    }

    @Test("A consumer learns that its queue was deleted") func deletedQueue() async throws {
        try await LiveConnection.use { live in
            try live.connection.consume(queue: live.queue, consumer: 7)
            let other = try RabbitMQConnection.open(RabbitMQConfiguration(uri: testURI()))
            try other.deleteQueue(live.queue)
            other.close()
            #expect(try live.next { if case .consumerCancelled(let consumer) = $0 { consumer } else { nil } } == 7)
        }
    }

    @Test("Messages arrive even if deliveries interleave with waiting calls") func interleaved() async throws {
        // The library keeps frames that arrive while a call waits for its answer. The connection must not forget them.
        try await LiveConnection.use { live in
            for index in 0..<500 { try live.publish([UInt8(truncatingIfNeeded: index)]) }
            try live.connection.consume(queue: live.queue, consumer: 0)
            for round in 0..<50 {
                try live.connection.limitUnacknowledged(UInt16(500 + round))
                for index in 0..<10 {
                    #expect(try live.nextDelivery().body == [UInt8(truncatingIfNeeded: round * 10 + index)])
                }
            }
        }
    }
}
