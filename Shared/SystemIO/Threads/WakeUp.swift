internal import CLinux
import Glibc

/// Wakes a thread that waits in a `Poller`: an eventfd(2). Signals coalesce: any number before `clear` is one wake-up.
package final class WakeUp: Sendable {
    /// Readable while signalled. Valid as long as this object lives.
    package let descriptor: Int32

    package init() throws(SystemError) {
        descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
        if descriptor < 0 { throw SystemError("eventfd") }
    }

    deinit { _ = Glibc.close(descriptor) }

    /// Wakes the thread, from any thread.
    package func signal() {
        // The only possible failure is EAGAIN: the counter is full, so the descriptor is readable already.
        _ = eventfd_write(descriptor, 1)
    }

    /// The woken thread calls it before it looks for work, so that a later signal wakes it again.
    package func clear() {
        var count: eventfd_t = 0
        _ = eventfd_read(descriptor, &count)
    }
}
