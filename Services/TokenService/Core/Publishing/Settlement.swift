import PushModel
import Synchronization

/// What became of publishing one thing.
enum Settlement: Sendable {
    /// - row: Of the outbox; nil where the relay has taken the notification.
    case notification(PushID, isPublished: Bool, row: OutboxRow?)
    case chunk(ChunkID, isPublished: Bool, reply: ChunksReply)
    case fence(Int64)
}

/// A row of the outbox: closed in the transaction that settles the last of its notifications, or a later one, never before. Then nothing else
/// would find a notification that is not published.
final class OutboxRow: Sendable {
    let id: Int64
    private let unsettled: Mutex<Int>

    init(_ id: Int64, notifications: Int) {
        self.id = id
        unsettled = Mutex(notifications)
    }

    func isClosed(by notifications: Int) -> Bool { unsettled.withLock { $0 == notifications } }
    func settled() { unsettled.withLock { $0 -= 1 } }
}

/// A caller that waits until the last of its chunks is written down, or given up.
final class ChunksReply: Sendable {
    private let unsettled: Mutex<Int>
    private let continuation: CheckedContinuation<Void, Never>

    init(chunks: Int, _ continuation: CheckedContinuation<Void, Never>) {
        unsettled = Mutex(chunks)
        self.continuation = continuation
        if chunks == 0 { continuation.resume() }
    }

    func settled() {
        let isLast = unsettled.withLock { unsettled in
            unsettled -= 1
            return unsettled == 0
        }
        if isLast { continuation.resume() }
    }
}
