import RabbitMQ

/// A subscription's second consumer, which it has while its messages are small. Consumers are numbered: the subscriptions' own first, then
/// the second ones in the same order, with other numbers each time.
///
/// RabbitMQ 3.10 remembers a quorum queue's consumer for as long as something of it is unsettled. One that came again under that number got
/// nothing, or was given what it had already, and the broker's channel died of it (`handle_deliver0`, `function_clause`, 541 to us).
extension ConsumerLoop {
    func subscriptionIndex(of consumer: Int) -> Int? {
        let count = core.settings.subscriptions.count
        guard consumer >= 0, count > 0 else { return nil }
        return consumer % count
    }

    func adjustAllowances(_ connection: RabbitMQConnection) throws(RabbitMQError) {
        for (index, subscription) in core.settings.subscriptions.enumerated() {
            switch allowances[index].change(unsettled: batcher.outstanding) {
            case nil: break
            case .begin:
                secondConsumers[index] += core.settings.subscriptions.count
                try connection.limitUnacknowledged(subscription.moreWhileSmall)
                try connection.consume(queue: subscription.queue, consumer: secondConsumers[index], arguments: subscription.arguments)
            case .end: try connection.cancel(consumer: secondConsumers[index])
            }
        }
    }

    func cancelAll(_ connection: RabbitMQConnection) throws(RabbitMQError) {
        for index in core.settings.subscriptions.indices {
            try connection.cancel(consumer: index)
            if allowances[index].isTaken { try connection.cancel(consumer: secondConsumers[index]) }
        }
    }
}
