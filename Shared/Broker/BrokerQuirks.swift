import RabbitMQ

/// Differences between RabbitMQ's versions, and the code that handles them. Tried with 3.10.8, and with 4.0.5 (`deploy/test --servers
/// trixie`).
///
/// Before 4.0:
/// * It does not cancel the consumer of a queue that was deleted and declared again at once (``keepsNewQueuesSecret(_:)``).
/// * A channel may refuse all messages to a queue for as long as the node of its last leader is away (``refusesWhileLeaderIsLost(_:)``).
///
/// In 3.10, when a stream gets another leader because a node was cut off (`deploy/chaos --scenario cluster-small`; 4.0 has not been tried):
/// * It never confirms some messages that were published over an older channel, and confirms later ones over it, which no reader gets.
/// `Publisher.isOrdered` trusts no confirmation that passes over a message.
/// * A reader may get no more messages, without an error. `ControlFollower` gives it another connection.
/// * A node that stood still while it was the stream's leader still acts as the leader when it is back. It serves everything but this
/// stream: 541 for each reader, no confirmation for each publisher, until it is restarted. `RabbitMQConnection.leavingNodeOnFailure`
/// connects to another node.
///
/// In 3.10 and 4.0 alike, so the code handles it on every version:
/// * It remembers a quorum queue's consumer for as long as a message of it is unsettled. A consumer that comes again under that number gets
/// too few messages, or none, or those that it had already, and not all its acknowledgements count. 3.10.8 may end the channel over it
/// (`handle_deliver0`, `function_clause`, 541 to us). `SubscribedQueue.newNumber` gives no number twice.
/// * A channel holds back commands for a quorum queue while 32 commands are not applied, and drops them when it is closed
/// (`rabbit_fifo_client`, `unsent_commands`): of 300 messages that were acknowledged one by one, 267 came again. 4.0 passes on the held
/// commands when a consumer ends, but not later acknowledgements. `ConsumerLoop.awaitSettlements`, `QueueReadingThread.take`.
/// * It answers with zeros for a quorum queue that does not report its numbers at once (`rabbit_quorum_queue:stat`).
/// `QueueReadingThread.state`.
///
/// From 4.0 on:
/// * A quorum queue without a delivery limit has one of 20 (``deliveryLimit``).
///
/// From 4.1 on:
/// * It refuses a frame size below 8,192 bytes. `RabbitMQConnection.frameMaximum` is 131,072, which every version takes.
enum BrokerQuirks {
    /// Before 4.0, a queue may be deleted and declared again within some 30 ms, for example by another service that is just connecting.
    /// RabbitMQ then subscribes its consumer without a word, and throws its deliveries away (`rabbit_channel`,
    /// `handle_consuming_queue_down_or_eol` before `rabbit_queue_type:remove`). The new queue holds a prefetch of messages for a consumer
    /// that never gets them: 3.10.8 did so 20 times of 20. 4.0.5 cancelled the consumer each time.
    ///
    /// If this is true, `ConsumerLoop.lookAfterSilentQueues` checks each queue that delivers nothing.
    static func keepsNewQueuesSecret(_ connection: RabbitMQConnection) throws(RabbitMQError) -> Bool {
        try connection.brokerMajorVersion() < 4
    }

    /// Before 4.0 (3.10.8 was read), a channel looks up the leader of a quorum queue, and asks that node when it publishes to the queue for
    /// the first time. If that node is away, the channel refuses every message to this queue until the node is back, though another node
    /// has led the queue since (`rabbit_fifo_client:enqueue`, `{badrpc, nodedown}`). 4.0.5 asks the other nodes too. A new channel looks
    /// the leader up again.
    ///
    /// If this is true, `PublisherLoop.renewChannel` makes one. A full queue refuses in the same way.
    static func refusesWhileLeaderIsLost(_ connection: RabbitMQConnection) throws(RabbitMQError) -> Bool {
        try connection.brokerMajorVersion() < 4
    }

    /// How often a message may come back from a consumer before it is dead-lettered. Explicit, because the default is 20 in 4.0, and none
    /// in 3.x. High enough that a crash loop with a full prefetch does not condemn innocent jobs.
    static let deliveryLimit: Int64 = 50
    /// The limit of the dead-letter queue, which has no queue to pass a message on to: it would drop a message at its limit. 3.x has no
    /// value for "unlimited".
    static let noDeliveryLimit: Int64 = 1_000_000_000
}
