package import Logging
package import PushModel
package import RabbitMQ
import ServiceLifecycle
import Synchronization
package import SystemIO

/// Takes messages from queues and streams, and settles them when asked to.
///
/// One thread owns one connection with all subscriptions, each with its own prefetch. When the connection is lost, or the broker ends a
/// consumer because its queue was deleted, it connects anew (full jitter, 0.1 to 2 s), declares the topology and subscribes again. The
/// broker delivers unsettled messages again, and their old delivery tags are void.
package final class Consumer: Service, Sendable {
    private let core: ConsumerCore
    private let thread: ServiceThread

    /// - Parameters:
    ///   - name: the thread's name, in logs and as metric dimension; at most nine bytes show in `top`.
    ///   - drainTimeout: how long ``run()`` waits for outstanding messages to be settled once a graceful shutdown has begun.
    ///   - watchdogLimit: how long one round of the thread, `onMessages` included, may take before its connection is cut.
    ///   - silenceLimit: a queue without a message for this long, and with none unsettled, is asked whether it still has this consumer.
    ///   - onMessages: called on the consumer's thread with the messages of one read, at least one: it must hand over and return.
    ///   - onConnectionChange: called on the consumer's thread: true when all subscriptions are in place, false when that ended.
    /// - Throws: when the process has no file descriptor left.
    package init(
        name: String = "consumer", configuration: RabbitMQConfiguration, topology: Topology, subscriptions: [Subscription],
        drainTimeout: Duration = .seconds(20), watchdogLimit: Duration = .seconds(10), silenceLimit: Duration = .seconds(30),
        logger: Logger,
        onMessages: @escaping @Sendable ([ReceivedMessage]) -> Void, onConnectionChange: @escaping @Sendable (Bool) -> Void = { _ in }
    ) throws(SystemError) {
        let core = try ConsumerCore(
            settings: ConsumerSettings(
                link: BrokerLink.Settings(name: name, configuration: configuration, topology: topology, watchdogLimit: watchdogLimit),
                subscriptions: subscriptions, silenceLimit: silenceLimit, onMessages: onMessages, onConnectionChange: onConnectionChange),
            logger: logger)
        self.core = core
        thread = ServiceThread(
            name: name, drainTimeout: drainTimeout, loop: { try ConsumerLoop(core).run() }, stop: { core.stop(within: $0) })
    }

    /// These messages are done: the broker forgets them. Never blocks; delivery tags of a connection that is gone are ignored, and so is a
    /// second settlement.
    package func acknowledge(_ deliveryTags: [DeliveryTag]) { core.inbox.post(.acknowledge(deliveryTags)) }

    /// Back to their queues, to be delivered again, here or elsewhere.
    package func giveBack(_ deliveryTags: [DeliveryTag]) { core.inbox.post(.giveBack(deliveryTags)) }

    /// Hands messages to the queue's dead-letter exchange: no version can read them.
    package func discard(_ deliveryTags: [DeliveryTag]) { core.inbox.post(.discard(deliveryTags)) }

    /// Cancels the subscriptions for good. Received messages may still be settled; those on their way are given back unseen.
    package func stopTaking() { core.inbox.post(.stopTaking) }

    /// Reads streams over another connection: for a caller that knows of messages that do not arrive.
    /// - Parameter leavingNode: at another node of the broker, where the process's next connections go too.
    package func readAnew(because reason: String, leavingNode: Bool = false) {
        core.inbox.post(.readAnew(because: reason, leavingNode: leavingNode))
    }

    /// Whether all subscriptions are in place.
    package var isConnected: Bool { core.status.withLock { $0.isConnected } }

    /// The node that it is connected to (`192.0.2.1:5672`); nil without a connection.
    package var peer: String? { core.status.withLock { $0.peer } }

    /// Received and not settled yet.
    package var unsettled: Int { core.status.withLock { $0.unsettled } }

    /// Consumes until graceful shutdown, then takes no more, waits until every received message is settled, at most for `drainTimeout`, and
    /// returns. Cancelling the task returns without waiting. The broker delivers unsettled messages again. May be called once.
    package func run() async throws { try await thread.run() }
}

/// Names one received message to the consumer that received it. Void once that connection is gone: the broker delivers the message again.
package struct DeliveryTag: Sendable, Hashable {
    /// Which connection of the consumer.
    let generation: UInt64
    let tag: UInt64
}

/// One message from a queue. Fields are decoded only when they are read.
package struct ReceivedMessage: Sendable {
    package let deliveryTag: DeliveryTag
    /// The queue as subscribed to.
    package let queue: String
    package let routingKey: String
    /// False: never delivered before. True means little (RabbitMQ: Reliability Guide).
    package let redelivered: Bool
    package let body: [UInt8]
    /// Position in a stream; nil in a queue.
    package let streamOffset: Int64?
    package let properties: RabbitMQProperties

    /// nil when the publisher gave none, or another value than a UUID.
    package var messageID: PushID? { PushID(ascii: properties.messageIDText) }
    package var contentType: String { properties.contentType }
    /// The headers whose values are text. On the path of every message, ``header(_:)`` is cheaper.
    package var headers: [String: String] { properties.headers.compactMapValues(\.string) }

    package func header(_ name: String) -> String? { properties.header(name)?.string }
}

extension ReceivedMessage {
    /// A message from memory, for Tests/Benchmarks/InstructionCount. Its delivery tag settles nothing.
    package init(tag: UInt64, queue: String, routingKey: String, properties: RabbitMQProperties, body: [UInt8]) {
        self.init(
            deliveryTag: DeliveryTag(generation: 1, tag: tag), queue: queue, routingKey: routingKey, redelivered: false, body: body,
            streamOffset: nil, properties: properties)
    }
}
