import RabbitMQ

/// What RabbitMQ does in some versions and not in others, and what the code does about it. Tried with 3.10.8, and with 4.0.5
/// (`deploy/test --servers trixie`).
///
/// Before 4.0:
/// * It keeps silent about a queue that was deleted and declared again at once (``keepsNewQueuesSecret(_:)``).
/// * A channel may refuse everything that goes to a queue for as long as the node of its last leader is away (``refusesWhileLeaderIsLost(_:)``).
///
/// In 3.10, where a stream gets another leader because a node was cut off (`deploy/chaos --scenario cluster-small`; 4.0 has not been looked at):
/// * It never confirms some of what was published over an older channel, and confirms what comes over it later, which no reader gets.
///   `Publisher.isOrdered` believes no confirmation that passes over a message.
/// * A reader may get nothing more, without a word. `DispatcherCore.doubtControl` gives it another connection.
/// * A node that stood still while it was the stream's leader takes itself for the leader when it is back. It serves everything but this stream:
///   541 for each reader, no confirmation for each publisher, until it is started again. `RabbitMQConnection.leavingNodeOnFailure` goes elsewhere.
///
/// In 3.10 and 4.0 alike, so the code does something about it on every version:
/// * It remembers a quorum queue's consumer for as long as something of it is unsettled. A consumer that comes again under that number gets
///   too few messages, or none, or those that it had already, and not all that it acknowledges is settled. 3.10.8 may end the channel over it
///   (`handle_deliver0`, `function_clause`, 541 to us). `SubscribedQueue.newNumber` gives no number twice.
/// * A channel holds back commands for a quorum queue while 32 commands are not applied, and drops it when it is closed
///   (`rabbit_fifo_client`, `unsent_commands`): of 300 messages that were acknowledged one by one, 267 came again. 4.0 passes on what it holds
///   when a consumer ends, but not what is acknowledged after that. `ConsumerLoop.awaitSettlements`, `QueueReadingThread.take`.
/// * It answers with zeros for a quorum queue that does not answer with its numbers at once (`rabbit_quorum_queue:stat`).
///   `QueueReadingThread.state`.
///
/// From 4.0 on:
/// * A quorum queue without a delivery limit has one of 20 (``deliveryLimit``).
///
/// From 4.1 on:
/// * A frame size below 8,192 bytes is refused. `RabbitMQConnection.frameMaximum` is 131,072, which every version takes.
enum BrokerQuirks {
    /// Before 4.0, when a queue is deleted and declared again within 30 ms or so, by another service that is just connecting, say, RabbitMQ
    /// subscribes for its consumer without a word, and throws away what it is to deliver (`rabbit_channel`, `handle_consuming_queue_down_or_eol`
    /// before `rabbit_queue_type:remove`). The new queue then holds a prefetch of messages for a consumer that nobody hears of: 3.10.8 did so 20
    /// times of 20. 4.0.5 cancelled the consumer each time.
    ///
    /// `ConsumerLoop.lookAfterSilentQueues` asks each queue that gives nothing, where this is true.
    static func keepsNewQueuesSecret(_ connection: RabbitMQConnection) throws(RabbitMQError) -> Bool {
        try connection.brokerMajorVersion() < 4
    }

    /// Before 4.0 (3.10.8 was read), a channel that publishes to a quorum queue for the first time asks the node that led the queue when it looked.
    /// Where that node is away, the channel refuses every message to this queue until the node is back, though another node has led the queue
    /// since (`rabbit_fifo_client:enqueue`, `{badrpc, nodedown}`). 4.0.5 asks the other nodes too. A new channel looks again.
    ///
    /// `PublisherLoop.renew` makes one, where this is true. A full queue refuses in the same way.
    static func refusesWhileLeaderIsLost(_ connection: RabbitMQConnection) throws(RabbitMQError) -> Bool {
        try connection.brokerMajorVersion() < 4
    }

    /// How often a message may come back from a consumer before it is dead-lettered. Explicit, because 4.0 would say 20, and 3.x for ever.
    /// High enough that a crash loop with a full prefetch does not condemn jobs that did nothing.
    static let deliveryLimit: Int64 = 50
    /// For the parking lot, which has nowhere to pass a message on to: a limit that is reached would drop it. 3.x knows no "unlimited".
    static let noDeliveryLimit: Int64 = 1_000_000_000
}
