/// How far a stream was read. Pure.
///
/// Offsets alone do not suffice: a stream that was deleted and declared again counts from 0, and whoever went on at 21 would miss its first
/// twenty messages. So reading goes on at the last message, and not behind it: if that is not what comes first, it is another stream.
/// If nothing comes, it is most likely another one too, with fewer messages. But a replica that is just starting gives nothing either, and reading
/// millions of messages again takes a minute: so that is concluded only when several readers got nothing of a stream that has messages.
struct StreamPosition {
    enum Standing: Equatable {
        /// Nothing was read, or the last message was seen in the stream that is read now.
        case certain
        /// A reader was begun, and the last message is yet to come again.
        case beginning
        /// It is another stream: to be read from its first message.
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

    /// - Returns: whether the message is to be handed over.
    mutating func arrived(_ offset: Int64, messageID: String) -> Bool {
        guard standing != .lost else { return false }
        if let last, standing == .beginning {
            // The broker begins with the chunk that holds the wanted offset.
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
