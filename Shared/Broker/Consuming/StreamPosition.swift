/// How far a stream was read. Pure.
///
/// Offsets alone do not tell: a stream that was deleted and declared again counts from 0, and whoever went on at 21 would miss its first
/// twenty messages. So reading goes on at the last message, and not behind it: if that is not what comes first, it is another stream.
struct StreamPosition {
    enum Standing: Equatable {
        /// Nothing was read, or the last message was seen in the stream that is read now.
        case certain
        /// A reader was begun, and the last message is yet to come again.
        case beginning
        /// It is another stream: to be read from its first message.
        case lost
        /// Offsets were passed over, or came again: to be read again from the last message on.
        case incomplete
    }

    private var last: (offset: Int64, messageID: String)?
    private(set) var standing = Standing.certain
    /// What came behind a gap. Where it comes there again, the gap is the stream's own: it counts things that are no messages too.
    private var behindGap: Int64?

    /// A reader is about to begin.
    /// - Returns: its offset; nil: from the first message on.
    mutating func begin() -> Int64? {
        standing = last == nil ? .certain : .beginning
        return last?.offset
    }

    /// - Returns: whether the message is to be handed over.
    mutating func arrived(_ offset: Int64, messageID: String) -> Bool {
        guard standing != .lost, standing != .incomplete else { return false }
        if let last, standing == .beginning {
            // The broker begins with the chunk that holds the wanted offset.
            if offset < last.offset { return false }
            standing = offset == last.offset && messageID == last.messageID ? .certain : .lost
            return false
        }
        if let last, offset != last.offset + 1, offset != behindGap {
            // Where the stream got another leader, it may have other messages at offsets that were read: the last one tells.
            if offset > last.offset { behindGap = offset }
            standing = .incomplete
            return false
        }
        last = (offset, messageID)
        return true
    }

    mutating func forget() { last = nil }
}
