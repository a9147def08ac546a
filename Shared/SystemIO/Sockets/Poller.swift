internal import CLinux
import Glibc

/// Waits for many descriptors at once: epoll(7), level-triggered. Belongs to one thread.
package final class Poller {
    /// The events to report. Hang-ups and errors are always reported.
    package struct Interest: OptionSet, Sendable {
        package let rawValue: UInt8
        package init(rawValue: UInt8) { self.rawValue = rawValue }

        package static let read = Interest(rawValue: 1)
        package static let write = Interest(rawValue: 2)

        fileprivate var mask: UInt32 {
            (contains(.read) ? EPOLLIN.rawValue | EPOLLRDHUP.rawValue : 0) | (contains(.write) ? EPOLLOUT.rawValue : 0)
        }
    }

    package struct Event: Equatable, Sendable {
        /// The key as given to `add`.
        package let key: UInt64
        /// A read will not block: bytes, end of stream or an error.
        package let isReadable: Bool
        package let isWritable: Bool
        /// The connection is over or broken: a read finds out which.
        package let isHangUp: Bool
    }

    private let descriptor: Int32
    private let capacity: Int
    private let ready: UnsafeMutablePointer<epoll_event>
    private var events: [Event] = []

    /// - Parameter capacity: the most events one `wait` returns; the others come with the next.
    package init(capacity: Int = 256) throws(SystemError) {
        self.capacity = max(1, capacity)
        descriptor = epoll_create1(Int32(EPOLL_CLOEXEC))
        ready = .allocate(capacity: self.capacity)
        if descriptor < 0 { throw SystemError("epoll_create1") }
    }

    deinit {
        ready.deallocate()
        if descriptor >= 0 { _ = Glibc.close(descriptor) }
    }

    package func add(_ descriptor: Int32, key: UInt64, interest: Interest) throws(SystemError) {
        try control(EPOLL_CTL_ADD, descriptor, key, interest)
    }

    package func modify(_ descriptor: Int32, key: UInt64, interest: Interest) throws(SystemError) {
        try control(EPOLL_CTL_MOD, descriptor, key, interest)
    }

    /// Removes the descriptor. Call it before the descriptor is closed.
    package func remove(_ descriptor: Int32) throws(SystemError) {
        try control(EPOLL_CTL_DEL, descriptor, 0, [])
    }

    private func control(_ operation: Int32, _ target: Int32, _ key: UInt64, _ interest: Interest) throws(SystemError) {
        var event = epoll_event(events: interest.mask, data: epoll_data_t(u64: key))
        if epoll_ctl(descriptor, operation, target, &event) != 0 { throw SystemError("epoll_ctl") }
    }

    /// Blocks until an event comes or `timeout` (rounded up to milliseconds) has passed; nil waits for ever, zero only polls.
    /// - Returns: empty after the timeout. Drop the array before the next call, and its storage is used again.
    package func wait(timeout: Duration?) throws(SystemError) -> [Event] {
        events.removeAll(keepingCapacity: true)
        let deadline = timeout.map { ContinuousClock.now + $0 }
        var limit = timeout?.millisecondsRoundedUp ?? -1
        while true {
            let count = epoll_wait(descriptor, ready, Int32(clamping: capacity), limit)
            if count >= 0 {
                for index in 0..<Int(count) { events.append(Event(ready[index])) }
                return events
            }
            if errno != EINTR { throw SystemError("epoll_wait") }
            if let deadline { limit = (deadline - ContinuousClock.now).millisecondsRoundedUp }
        }
    }
}

extension Poller.Event {
    fileprivate init(_ event: epoll_event) {
        let over = event.events & (EPOLLHUP.rawValue | EPOLLERR.rawValue) != 0
        key = event.data.u64
        isReadable = over || event.events & (EPOLLIN.rawValue | EPOLLRDHUP.rawValue) != 0
        isWritable = over || event.events & EPOLLOUT.rawValue != 0
        isHangUp = over
    }
}
