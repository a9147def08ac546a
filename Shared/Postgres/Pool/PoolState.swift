internal import SystemIO

/// The holders of slots, and the waiting callers, whose queues take turns. Decides, never acts: the pool performs the returned actions.
///
/// A slot is a place for one connection, and connects by itself.
struct PoolState<Slot: AnyObject, Waiter> {
    private let size: Int
    private var idle: [Slot] = []
    private var slotCount = 0
    /// How many slots the callers of a queue hold. Only queues whose callers hold one.
    private var lent: [String: Int] = [:]
    private var waiters = Turns<(id: UInt64, waiter: Waiter)>()
    private var nextID: UInt64 = 0
    private(set) var isClosed = false

    init(size: Int) { self.size = size }

    enum TakeAction { case use(Slot), create, wait, refuse }

    /// The callers of a named queue never hold the last of four or more slots: those of a queue that was quiet would wait for them each
    /// time.
    private func hasShare(_ queue: String) -> Bool { !queue.isEmpty && (lent[queue] ?? 0) >= (size < 4 ? size : size - 1) }

    /// A new caller overtakes no waiting one: while a slot is free, only callers wait whose queues have their shares.
    mutating func take(in queue: String) -> TakeAction {
        if isClosed { return .refuse }
        guard !hasShare(queue) else { return .wait }
        if let slot = idle.popLast() {
            lent[queue, default: 0] += 1
            return .use(slot)
        }
        guard slotCount < size else { return .wait }
        slotCount += 1
        lent[queue, default: 0] += 1
        return .create
    }

    /// Adds a waiter after ``take(in:)`` returned `.wait`, under the same lock.
    mutating func enqueue(_ waiter: Waiter, in queue: String) -> UInt64 {
        nextID += 1
        waiters.append((nextID, waiter), to: queue)
        return nextID
    }

    enum GiveAction { case resume(Waiter), keep, close }

    /// A queue whose callers hold half of the slots is passed over while another one waits: turns count callers, and one caller may hold
    /// its slot for longer than another. One queue at most holds half, because no queue holds the slot that is given back.
    /// - Parameters:
    ///   - queue: The one of the caller that held the slot.
    ///   - isConnected: A slot without a connection is used again last.
    mutating func give(_ slot: Slot, from queue: String, isConnected: Bool) -> GiveAction {
        lent[queue] = lent[queue].flatMap { $0 > 1 ? $0 - 1 : nil }
        if isClosed {
            slotCount -= 1
            return .close
        }
        if let first = waiters.firstQueue, 2 * (lent[first] ?? 0) >= size { waiters.passOverFirst() }
        if let next = waiters.firstQueue, !hasShare(next), let caller = waiters.popFirst() {
            lent[next, default: 0] += 1
            return .resume(caller.waiter)
        }
        idle.insert(slot, at: isConnected ? idle.endIndex : 0)
        return .keep
    }

    /// The waiter, if it waits still.
    mutating func withdraw(_ id: UInt64, from queue: String) -> Waiter? { waiters.remove(from: queue) { $0.id == id }?.waiter }

    /// Refuses all callers from now on; returns the slots to close and the callers to refuse.
    mutating func close() -> (idle: [Slot], waiters: [Waiter]) {
        isClosed = true
        defer {
            slotCount -= idle.count
            idle = []
        }
        return (idle, waiters.removeAll().map(\.waiter))
    }

    /// Whether a caller waits that would get the next slot from another queue: not one whose queue has its share.
    var isContended: Bool { waiters.queueNames.contains { !hasShare($0) } }
    var idleCount: Int { idle.count }
    var busyCount: Int { slotCount - idle.count }
    var waitingCount: Int { waiters.count }
    var isDrained: Bool { isClosed && slotCount == 0 }
}
