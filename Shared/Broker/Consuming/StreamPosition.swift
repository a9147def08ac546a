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
    /// - Returns: its offset; nil: from the first message on.
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
