package import Broker
package import Dispatch
import FoundationEssentials
import PushModel
package import RabbitMQ
import TestServers

/// The broker that tests may use: an AMQP URI in the environment. Objects of a test have a prefix of their own and are removed afterwards.
package enum TestBroker {
    package static func uri() throws -> String {
        try TestServers.variable("PUSH_TEST_AMQP", "the tests' broker as an AMQP URI, for example amqp://guest:guest@127.0.0.1:5672/")
    }

    package static func configuration(connectionName: String = "test") throws -> RabbitMQConfiguration {
        try RabbitMQConfiguration(uri: uri(), connectionName: connectionName)
    }

    /// `test-` and eight random characters.
    package static func uniquePrefix() -> String { "test-\(PushID.random().description.prefix(8))" }

    /// Three topologies are declared at a time, because 16 tests that begin together declare 500 queues.
    private static let declarations = (1...3).map { DispatchQueue(label: "test topologies \($0)") }

    /// RabbitMQ gives the Raft group of a new quorum queue five seconds to elect a leader. On a busy machine that may not do: RabbitMQ then
    /// removes the queue, answers 541 `cluster_not_formed` and ends the connection (3.10, `rabbit_quorum_queue:declare_queue_error`). So
    /// this declares everything again, as the services do.
    fileprivate static func declare(_ topology: Topology, _ configuration: RabbitMQConfiguration) async throws {
        let queue = declarations.randomElement() ?? .global()
        let end = ContinuousClock.now + .seconds(60)
        while true {
            do {
                return try await withConnection(configuration, on: queue) { try topology.declare(on: $0) }
            } catch let error as RabbitMQError
                where error.code == .connectionClosed(541) && error.message.contains("cluster_not_formed") && ContinuousClock.now < end
            {}
        }
    }

    /// Opens a connection on a thread that may block, and closes it after `body`, which runs there too.
    @discardableResult
    package static func withConnection<R: Sendable>(
        _ configuration: RabbitMQConfiguration, on queue: DispatchQueue = .global(),
        _ body: @escaping @Sendable (RabbitMQConnection) throws -> R
    ) async throws -> R {
        try await withCheckedThrowingContinuation { continuation in
            queue.async {
                continuation.resume(
                    with: Result {
                        let connection = try open(configuration)
                        defer { connection.close() }
                        // A long timeout, because hundreds of tests declare queues at the same time and the broker may be busy.
                        connection.waitForAnswers(atMost: .seconds(40))
                        return try body(connection)
                    })
            }
        }
    }

    /// A login has five seconds, and a busy broker may need more.
    private static func open(_ configuration: RabbitMQConfiguration) throws -> RabbitMQConnection {
        let end = ContinuousClock.now + .seconds(60)
        while true {
            do throws(RabbitMQError) { return try RabbitMQConnection.open(configuration) } catch {
                guard error.code == .timedOut, .now < end else { throw error }
            }
        }
    }

    /// How many messages are ready in a queue.
    package static func messageCount(_ queue: String, _ configuration: RabbitMQConfiguration) async throws -> Int {
        try await withConnection(configuration) { connection in
            // A quorum queue that does not answer the broker at once counts as empty there.
            for _ in 0..<3 {
                let count = try connection.messageCount(queue)
                if count > 0 { return count }
            }
            return try connection.messageCount(queue)
        }
    }
}

/// Gives a test a topology of its own on the real broker, declared, and removes it afterwards, also when the test fails.
/// - Parameters:
///   - uri: Of another broker than the one that all tests share.
///   - hasRetries: False where no dispatcher runs: three fifths of the queues.
package func withTestBroker<R>(
    uri: String? = nil, hasRetries: Bool = true, _ body: (RabbitMQConfiguration, Topology) async throws -> R
) async throws -> R {
    let configuration = try uri.map { try RabbitMQConfiguration(uri: $0, connectionName: "test") } ?? TestBroker.configuration()
    let topology = Topology(prefix: TestBroker.uniquePrefix(), hasRetries: hasRetries)
    try await TestBroker.declare(topology, configuration)
    let result: Result<R, any Error>
    do {
        result = .success(try await body(configuration, topology))
    } catch {
        result = .failure(error)
    }
    try await TestBroker.withConnection(configuration) { try topology.remove(on: $0) }
    return try result.get()
}
