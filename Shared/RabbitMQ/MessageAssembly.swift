import CRabbitMQ

/// Puts deliver or return, header and body frames together into one message. Frames of one channel come strictly in that order (AMQP 0-9-1
/// section 4.2.6), so one message is being assembled at a time.
///
/// The library's own `amqp_read_message` is not used: it may lose frames, and reads bodies without a limit or a deadline (docs/rabbitmq.md,
/// Receiving).
struct MessageAssembly {
    private enum Start {
        case none
        case delivery(tag: UInt64, consumer: Int, isRedelivered: Bool, exchange: String, routingKey: String)
        case returned(code: UInt16, text: String, exchange: String, routingKey: String, channel: UInt16)
    }

    private var start = Start.none
    private var properties: RabbitMQProperties?
    private var bodySize = 0
    private var received = 0
    private var keepsBody = false
    private var body: [UInt8] = []
    private var exchanges = RecentText()
    private var routingKeys = RecentText()

    /// basic.deliver. False: another message is being assembled.
    mutating func begin(_ method: amqp_basic_deliver_t) -> Bool {
        guard case .none = start else { return false }
        start = .delivery(
            tag: method.delivery_tag, consumer: number(method.consumer_tag), isRedelivered: method.redelivered != 0,
            exchange: exchanges.text(method.exchange), routingKey: routingKeys.text(method.routing_key))
        return true
    }

    /// basic.return. False: another message is being assembled.
    mutating func begin(_ method: amqp_basic_return_t, _ channel: UInt16) -> Bool {
        guard case .none = start else { return false }
        start = .returned(
            code: method.reply_code, text: String(method.reply_text), exchange: String(method.exchange),
            routingKey: String(method.routing_key), channel: channel)
        return true
    }

    /// The header frame. The body is given memory only when it is within `maximum`.
    /// - Returns: false when no message was begun.
    mutating func header(properties: RabbitMQProperties, bodySize: UInt64, maximum: Int) -> Bool {
        if case .none = start { return false }
        guard self.properties == nil, let size = Int(exactly: bodySize) else { return false }
        self.properties = properties
        self.bodySize = size
        received = 0
        if case .delivery = start { keepsBody = size <= maximum } else { keepsBody = false }
        body = []
        return true
    }

    /// A body frame. False: more bytes than the header promised, or no header.
    mutating func append(_ fragment: UnsafeRawBufferPointer) -> Bool {
        guard properties != nil, fragment.count <= bodySize - received else { return false }
        received += fragment.count
        guard keepsBody else { return true }
        if fragment.count == bodySize {
            body = [UInt8](fragment)
        } else {
            if body.isEmpty { body.reserveCapacity(bodySize) }
            body.append(contentsOf: fragment)
        }
        return true
    }

    /// The message, once it is complete.
    mutating func finish() -> RabbitMQEvent? {
        guard let properties, received == bodySize else { return nil }
        defer {
            start = .none
            self.properties = nil
            body = []
        }
        switch start {
        case .none: return nil
        case .delivery(let tag, let consumer, let isRedelivered, let exchange, let routingKey):
            return .delivery(
                RabbitMQDelivery(
                    tag: tag, consumer: consumer, isRedelivered: isRedelivered, exchange: exchange, routingKey: routingKey,
                    properties: properties, body: body, isOversized: !keepsBody))
        case .returned(let code, let text, let exchange, let routingKey, let channel):
            return .returned(
                RabbitMQReturn(
                    replyCode: code, replyText: text, exchange: exchange, routingKey: routingKey, messageID: properties.messageID,
                    channel: channel))
        }
    }
}

/// Our consumer tags are decimal numbers. -1 for anything else.
func number(_ tag: amqp_bytes_t) -> Int {
    var number = 0
    guard tag.len > 0, tag.len <= 9 else { return -1 }
    for byte in UnsafeRawBufferPointer(start: tag.bytes, count: tag.len) {
        guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return -1 }
        number = number * 10 + Int(byte - UInt8(ascii: "0"))
    }
    return number
}

/// Gives the same few names again and again without making new strings.
private struct RecentText {
    private var texts: [String] = []
    private var next = 0

    mutating func text(_ bytes: amqp_bytes_t) -> String {
        // Up to fifteen bytes lie inside the String itself: nothing to save.
        if bytes.len <= 15 { return String(bytes) }
        let wanted = UnsafeRawBufferPointer(start: bytes.bytes, count: bytes.len)
        for text in texts where text.utf8.count == wanted.count && text.utf8.elementsEqual(wanted) { return text }
        let text = String(bytes)
        if texts.count < 8 {
            texts.append(text)
        } else {
            texts[next % 8] = text
            next += 1
        }
        return text
    }
}

/// An event from the broker. ``RabbitMQConnection/receive(into:limit:)`` returns them in the order of arrival.
package enum RabbitMQEvent: Sendable {
    /// A message for one of our consumers.
    case delivery(RabbitMQDelivery)
    /// Published messages are stored. `multiple`: all up to and including `tag`.
    case confirmed(tag: UInt64, multiple: Bool, channel: UInt16)
    /// Published messages were not accepted.
    case refused(tag: UInt64, multiple: Bool, channel: UInt16)
    /// A mandatory message reached no queue. A `confirmed` for it follows and must be ignored (RabbitMQ: Consumer Acknowledgements and
    /// Publisher Confirms).
    case returned(RabbitMQReturn)
    /// The broker ended a consumer: its queue was deleted or moved.
    case consumerCancelled(consumer: Int)
    /// A resource alarm: stop writing. Bytes written now wait in the socket until the alarm ends.
    case blocked(reason: String)
    case unblocked
}

/// One received message.
package struct RabbitMQDelivery: Sendable {
    /// Numbers deliveries on this connection from 1 without gaps.
    package let tag: UInt64
    /// The number that was given to ``RabbitMQConnection/consume(queue:consumer:arguments:)``.
    package let consumer: Int
    /// False means it was never delivered before; true means little.
    package let isRedelivered: Bool
    package let exchange: String
    package let routingKey: String
    package let properties: RabbitMQProperties
    /// Empty when ``isOversized``.
    package let body: [UInt8]
    /// The body was larger than the configuration allows and was not kept.
    package let isOversized: Bool
}

/// A message that came back. It carries no delivery tag: its message id identifies it.
package struct RabbitMQReturn: Sendable, Equatable {
    package let replyCode: UInt16
    package let replyText: String
    package let exchange: String
    package let routingKey: String
    package let messageID: String
    /// Over which it was published.
    package let channel: UInt16
}
