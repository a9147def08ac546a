import Glibc

/// A POSIX call that failed: the call, and `errno`.
package struct SystemError: Error, Equatable, CustomStringConvertible {
    /// The call, as the manual names it (`connect`, `epoll_ctl`).
    package let operation: String
    /// The value of `errno` (errno(3)).
    package let code: Int32

    package init(operation: String, code: Int32) {
        self.operation = operation
        self.code = code
    }

    /// Names `operation` with the `errno` of this thread; call it straight after the failing call.
    init(_ operation: String) {
        self.init(operation: operation, code: errno)
    }

    /// The error of a call that was given up after its time.
    package static func timedOut(_ operation: String) -> SystemError { SystemError(operation: operation, code: ETIMEDOUT) }

    package var description: String { "\(operation): \(reason) (errno \(code))" + (advice.map { ". \($0)" } ?? "") }
    /// The system's text for the code: `No space left on device`.
    package var reason: String { String(cString: strerror(code)) }

    /// Advice for a person, if it is always the same.
    private var advice: String? {
        guard operation == "pthread_create", code == EAGAIN else { return nil }
        return "The system starts no more threads: raise the limit that is reached"
            + " (ulimit -u, the cgroup's pids.max or systemd's TasksMax, kernel.threads-max), or free memory"
    }

    package var isTimeout: Bool { code == ETIMEDOUT }
    /// The reader of a pipe has gone (EPIPE).
    package var isBrokenPipe: Bool { code == EPIPE }
    package var isConnectionRefused: Bool { code == ECONNREFUSED }
    /// Another process or file handle has the lock (EWOULDBLOCK of flock(2)).
    package var isHeldByAnother: Bool { code == EWOULDBLOCK }
    /// This process or the machine has no file descriptors left (EMFILE, ENFILE).
    package var isOutOfDescriptors: Bool { code == EMFILE || code == ENFILE }
}
