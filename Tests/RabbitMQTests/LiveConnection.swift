import Foundation
import PushModel
import RabbitMQ
import SystemIO
import TestServers
import Testing

struct NothingCame: Error {}

func testURI() throws -> String { try TestServers.variable("PUSH_TEST_AMQP", "the tests' broker as an AMQP URI") }

/// Runs a test's body where it may block without delaying other tests. Its expectations still belong to the test.
private actor Stage {
    private let executor = BlockingExecutor(label: "rabbitmq-tests")
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    func play(_ body: @Sendable () throws -> Void) throws { try body() }
}

/// A connection of one test, on a thread that may block, with its own queue.
final class LiveConnection {
    let connection: RabbitMQConnection
    let queue: String
    private let wakeUp: WakeUp
    private(set) var events: [RabbitMQEvent] = []

    private init(_ configuration: RabbitMQConfiguration, queue: String) throws {
        connection = try RabbitMQConnection.open(configuration)
        self.queue = queue
        wakeUp = try WakeUp()
    }

    /// - Parameter arguments: Arguments of the queue, which the test declares before `body` and deletes after it over another connection.
    static func use(
        queue arguments: [String: RabbitMQValue] = [:], configure: (inout RabbitMQConfiguration) -> Void = { _ in },
        _ body: @escaping @Sendable (LiveConnection) throws -> Void
    ) async throws {
        var configuration = try RabbitMQConfiguration(uri: testURI(), connectionName: "rabbitmq-tests")
        configure(&configuration)
        let settings = configuration
        try await Stage().play {
            let name = "test-\(PushID.random())"
            let result = Result {
                let live = try LiveConnection(settings, queue: name)
                try live.connection.declareQueue(name, arguments: arguments)
                try body(live)
                live.connection.close()
            }
            let cleaner = try RabbitMQConnection.open(settings)
            try cleaner.deleteQueue(name)
            cleaner.close()
            try result.get()
        }
    }

    func publish(
        _ body: [UInt8] = [1], id: PushID = .random(), to exchange: String = "", key: String? = nil, headers: [String: String] = [:]
    ) throws {
        try connection.publish(
            RabbitMQMessage(
                exchange: exchange, routingKey: key ?? queue, messageID: Array(id.description.utf8), contentType: "application/test",
                headers: headers, body: body))
    }

    /// The next event for which `pick` returns a value. Drops the events before it.
    func next<T>(_ pick: (RabbitMQEvent) -> T?) throws -> T {
        let deadline = ContinuousClock.now + .seconds(60)
        while ContinuousClock.now < deadline {
            while !events.isEmpty {
                if let found = pick(events.removeFirst()) { return found }
            }
            try connection.receive(into: &events)
            if events.isEmpty { try connection.wait(orUntil: wakeUp.descriptor, timeout: .seconds(1)) }
        }
        throw NothingCame()
    }

    /// The first message that arrives on a bare connection.
    static func firstDelivery(on connection: RabbitMQConnection) throws -> RabbitMQDelivery {
        let wakeUp = try WakeUp()
        let deadline = ContinuousClock.now + .seconds(60)
        var events: [RabbitMQEvent] = []
        while ContinuousClock.now < deadline {
            try connection.receive(into: &events)
            for case .delivery(let delivery) in events { return delivery }
            try connection.wait(orUntil: wakeUp.descriptor, timeout: .seconds(1))
        }
        throw NothingCame()
    }

    func nextDelivery() throws -> RabbitMQDelivery {
        try next { if case .delivery(let delivery) = $0 { delivery } else { nil } }
    }

    /// Waits until the broker answered all publishes up to `tag`.
    func awaitConfirms(upTo tag: UInt64) throws {
        var answered: UInt64 = 0
        while answered < tag {
            answered = try next { event in
                switch event {
                case .confirmed(let tag, _, _), .refused(let tag, _, _): max(answered, tag)
                default: nil
                }
            }
        }
    }
}
