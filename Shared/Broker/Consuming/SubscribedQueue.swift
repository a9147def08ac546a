import RabbitMQ

/// The consumer thread's state of one subscription.
struct SubscribedQueue {
    let subscription: Subscription
    /// The number of its consumer.
    private(set) var consumer: Int
    private var lastNumber: Int
    /// How many subscriptions there are.
    private let stride: Int
    /// When it last delivered a message, or was checked for its silence.
    var silentSince = ContinuousClock.now
    var streamPosition: StreamPosition?

    init(_ subscription: Subscription, index: Int, of count: Int) {
        self.subscription = subscription
        stride = count
        lastNumber = index
        consumer = index
        if subscription.kind == .stream { streamPosition = StreamPosition() }
    }

    /// A consumer's number that was not used before. Its remainder by the count of subscriptions is the subscription's place.
    mutating func newNumber() -> Int {
        lastNumber += stride
        return lastNumber
    }

    /// - Returns: the number and the arguments to consume with.
    mutating func beginConsumer() -> (number: Int, arguments: [String: RabbitMQValue]) {
        consumer = newNumber()
        silentSince = .now
        guard subscription.kind == .stream else { return (consumer, [:]) }
        return (consumer, [Subscription.streamOffset: streamPosition?.begin().map { .integer($0) } ?? "first"])
    }
}
