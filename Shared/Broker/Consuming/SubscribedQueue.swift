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

/// One queue or stream to consume from.
package struct Subscription: Sendable {
    enum Kind: Equatable {
        case queue, stream
        /// A queue of the connection's own, which ends with it.
        case copies
    }

    /// The queue, or the exchange for copies.
    package let queue: String
    /// How many messages may be unsettled at once: bounds the messages in memory. 1 to 65535.
    package let prefetch: UInt16
    let kind: Kind

    private init(_ queue: String, _ prefetch: UInt16, _ kind: Kind) {
        precondition(prefetch > 0, "a prefetch of zero would mean no limit")
        self.queue = queue
        self.prefetch = prefetch
        self.kind = kind
    }

    package init(queue: String, prefetch: UInt16) { self.init(queue, prefetch, .queue) }

    /// Reads a stream from its first message; after a lost connection it goes on behind the last message that it delivered. Messages of a
    /// stream have to be acknowledged too: that requests more.
    package static func stream(_ name: String, prefetch: UInt16) -> Subscription { Subscription(name, prefetch, .stream) }

    /// Gets what is published to an exchange while the connection lives, through a queue on its node. If it holds too many, the oldest go.
    package static func copies(of exchange: String, prefetch: UInt16) -> Subscription { Subscription(exchange, prefetch, .copies) }

    static let streamOffset = "x-stream-offset"
    /// A process that takes nothing must not fill the node's memory.
    static let copiesArguments: [String: RabbitMQValue] = ["x-max-length": 10_000, "x-overflow": "drop-head"]
}

/// The position in a stream. Pure.
///
/// Offsets alone do not suffice: a stream that was deleted and declared again counts from 0, and a reader that went on at 21 would miss its
/// first twenty messages. So reading goes on at the last message, and not behind it: if another message comes first, it is another stream.
///
/// If none comes, it is most likely another stream with fewer messages. But a replica that is just starting delivers none either, and
/// reading millions of messages again takes a minute. So it counts as another stream only after several readers in a row got none of a
/// stream that has messages.
struct StreamPosition {
    enum Standing: Equatable {
        /// No message was read, or the last one was seen in the stream that is read now.
        case certain
        /// A reader was begun, and the last message is yet to come again.
        case beginning
        /// It is another stream, which has to be read from its first message.
        case lost
    }

    private var last: (offset: Int64, messageID: String)?
    private(set) var standing = Standing.certain
    /// Readers in a row that got nothing.
    private var silentReaders = 0
    private static let maximumSilentReaders = 3

    /// A reader is about to begin.
    /// - Returns: The reader's offset; nil: from the first message on.
    mutating func begin() -> Int64? {
        standing = last == nil ? .certain : .beginning
        return last?.offset
    }

    /// - Returns: whether to hand the message over.
    mutating func arrived(_ offset: Int64, messageID: String) -> Bool {
        guard standing != .lost else { return false }
        if let last, standing == .beginning {
            // The broker begins with the chunk (of the stream) that holds the wanted offset.
            if offset < last.offset { return false }
            standing = offset == last.offset && messageID == last.messageID ? .certain : .lost
            silentReaders = 0
            return false
        }
        if let last, offset <= last.offset { return false }
        last = (offset, messageID)
        return true
    }

    /// The reader is ended, though the stream has messages for it.
    mutating func gaveNothing() {
        guard standing == .beginning else { return }
        silentReaders += 1
        if silentReaders >= Self.maximumSilentReaders { standing = .lost }
    }

    mutating func forget() {
        last = nil
        silentReaders = 0
    }
}
