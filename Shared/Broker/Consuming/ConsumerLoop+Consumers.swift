import CoreMetrics
import Logging
import PushModel
import RabbitMQ

/// The consumers on one connection, one for each subscription. None gets a number that was used before (``BrokerQuirks``).
extension ConsumerLoop {
    func subscriptionIndex(of consumer: Int) -> Int? {
        consumer >= 0 && !subscribed.isEmpty ? consumer % subscribed.count : nil
    }

    func subscribe(_ connection: RabbitMQConnection) throws(RabbitMQError) {
        for index in subscribed.indices { try consume(index, connection) }
    }

    private func consume(_ index: Int, _ connection: RabbitMQConnection) throws(RabbitMQError) {
        let subscription = subscribed[index].subscription
        let (number, arguments) = subscribed[index].beginConsumer()
        try connection.limitUnacknowledged(subscription.prefetch)
        var queue = subscription.queue
        if subscription.kind == .copies {
            queue += "." + PushID.random().description
            try connection.declareOwnQueue(queue, arguments: Subscription.copiesArguments)
            try connection.bind(queue: queue, to: subscription.queue, routingKey: "")
        }
        try connection.consume(queue: queue, consumer: number, arguments: arguments)
    }

    /// For each queue that has delivered nothing for a while and has no unsettled message, checks whether the broker still has its
    /// consumer.
    func lookAfterSilentQueues(_ connection: RabbitMQConnection) throws(RabbitMQError) {
        let now = ContinuousClock.now
        for index in subscribed.indices {
            let silence = subscribed[index].silentSince.duration(to: now)
            if let standing = subscribed[index].streamPosition?.standing {
                switch standing {
                case .certain where silence >= core.settings.silenceLimit: try ask(index, connection)
                // The caller gets a lost connection, and no longer relies on having read the stream to its end.
                case .beginning where silence >= Self.streamPatience: isRenewing = true
                case .lost: forgetStream(index)
                default: break
                }
            } else if subscribed[index].subscription.kind == .queue, silence >= core.settings.silenceLimit,
                batcher.outstanding(of: index) == 0
            {
                try ask(index, connection)
            }
        }
    }

    private func ask(_ index: Int, _ connection: RabbitMQConnection) throws(RabbitMQError) {
        guard try BrokerQuirks.keepsNewQueuesSecret(connection) else {
            subscribed[index].silentSince = .now
            return
        }
        if subscribed[index].subscription.kind == .stream {
            try readStreamAnew(index, connection)
        } else {
            try consumeAnew(index, connection)
        }
    }

    /// How long a stream may take to deliver the message at which its reader began.
    private static let streamPatience = Duration.seconds(5)

    private func readStreamAnew(_ index: Int, _ connection: RabbitMQConnection) throws(RabbitMQError) {
        try cancel(index, connection)
        try consume(index, connection)
    }

    /// Reads it from its beginning over another connection, so that the caller gets a change of connection.
    func forgetStream(_ index: Int) {
        core.logger.warning(
            "A stream is not the one that was read: it was probably deleted and declared again. Reading it from its beginning",
            metadata: [LogKey.client: "\(core.settings.link.name)", LogKey.queue: "\(subscribed[index].subscription.queue)"])
        core.metrics.renewals.increment()
        subscribed[index].streamPosition?.forget()
        isRenewing = true
    }

    /// Without our consumer the queue must have one fewer. If not, the connection has to be closed, once all its messages are settled. A
    /// service that comes or goes in these milliseconds can falsify the count: then we connect anew without need, or check again later.
    private func consumeAnew(_ index: Int, _ connection: RabbitMQConnection) throws(RabbitMQError) {
        let queue = subscribed[index].subscription.queue
        let expected = try connection.queueState(queue).consumers - 1
        try cancel(index, connection)
        let left = try connection.queueState(queue).consumers
        try consume(index, connection)
        guard expected >= 0, left > expected else { return }
        core.logger.warning(
            "A queue holds messages for a consumer that does not get them: it was probably deleted and declared again. Connecting anew",
            metadata: [LogKey.client: "\(core.settings.link.name)", LogKey.queue: "\(queue)"])
        core.metrics.renewals.increment()
        isRenewing = true
    }

    private func cancel(_ index: Int, _ connection: RabbitMQConnection) throws(RabbitMQError) {
        try connection.cancel(consumer: subscribed[index].consumer)
    }

    func cancelAll(_ connection: RabbitMQConnection) throws(RabbitMQError) {
        for index in subscribed.indices { try cancel(index, connection) }
    }

    /// Returns when every acknowledgement is applied, so that the connection may be closed.
    ///
    /// RabbitMQ's channel holds back commands for a quorum queue while 32 commands are not applied (``BrokerQuirks``). The beginning and
    /// the end of a consumer are commands that it waits for. The first answer proves that the commands sent before it are applied. The
    /// channel learns of that while it waits for the second answer, and then sends the commands that it held back. The third command comes
    /// behind them.
    func awaitSettlements(_ connection: RabbitMQConnection) throws(RabbitMQError) {
        for index in subscribed.indices where subscribed[index].subscription.kind == .queue {
            // This consumer is not here for messages: others come first. A message that it gets goes back when the connection is closed.
            try connection.limitUnacknowledged(1)
            for isLast in [false, true] {
                link.passed()
                let number = subscribed[index].newNumber()
                try connection.consume(queue: subscribed[index].subscription.queue, consumer: number, arguments: ["x-priority": -1000])
                if !isLast { try connection.cancel(consumer: number) }
            }
        }
    }
}
