import RabbitMQ

/// A subscription's second consumer, which it has while its messages are small. Consumers are numbered: the subscriptions' own first, then
/// the second ones in the same order, with other numbers each time.
///
/// RabbitMQ 3.10 remembers a quorum queue's consumer for as long as something of it is unsettled. One that comes again under that number is
/// given what it has already, in a form that ends the channel and the connection (`get_checked_out` answers with headers only).
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
