import RabbitMQ

/// A subscription's second consumer, which it has while its messages are small. Consumers are numbered: the subscriptions' own first, then
/// the second ones in the same order.
extension ConsumerLoop {
    func subscriptionIndex(of consumer: Int) -> Int? {
        let count = core.settings.subscriptions.count
        guard (0..<2 * count).contains(consumer) else { return nil }
        return consumer % count
    }

    func adjustAllowances(_ connection: RabbitMQConnection) throws(RabbitMQError) {
        for (index, subscription) in core.settings.subscriptions.enumerated() {
            switch allowances[index].change(unsettled: batcher.outstanding) {
            case nil: break
            case .begin:
                try connection.limitUnacknowledged(subscription.moreWhileSmall)
                try connection.consume(queue: subscription.queue, consumer: secondConsumer(index), arguments: subscription.arguments)
            case .end: try connection.cancel(consumer: secondConsumer(index))
            }
        }
    }

    func cancelAll(_ connection: RabbitMQConnection) throws(RabbitMQError) {
        for index in core.settings.subscriptions.indices {
            try connection.cancel(consumer: index)
            if allowances[index].isTaken { try connection.cancel(consumer: secondConsumer(index)) }
        }
    }

    private func secondConsumer(_ index: Int) -> Int { core.settings.subscriptions.count + index }
}
