internal import CLinux
import Glibc
import Synchronization

/// One thread of the operating system that runs one closure to its end.
/// It is for event loops and blocking C libraries, which must not occupy a thread of Swift's cooperative pool.
package final class SystemThread: Sendable {
    private final class Body: Sendable {
        let name: String
        let run: @Sendable () -> Void

        init(name: String, run: @escaping @Sendable () -> Void) {
            self.name = name
            self.run = run
        }
    }

    /// The thread until `join` was called; nil after.
    private let thread: Mutex<pthread_t?>

    private init(_ thread: pthread_t) {
        self.thread = Mutex(thread)
    }

    deinit {
        if let thread = thread.withLock({ $0 }) { pthread_detach(thread) }
    }

    /// - Parameters:
    ///   - name: shown by top and ps; the kernel keeps the first fifteen bytes.
    ///   - stackBytes: nil for the system's default, which is `ulimit -s`.
    /// - Throws: EAGAIN (pthread_create(3)): a limit on threads is reached, or there is no memory for a stack. The body never runs then.
    @discardableResult
    package static func start(
        name: String, stackBytes: Int? = nil, _ body: @escaping @Sendable () -> Void
    ) throws(SystemError) -> SystemThread {
        var attributes = pthread_attr_t()
        pthread_attr_init(&attributes)
        defer { pthread_attr_destroy(&attributes) }
        if let stackBytes { pthread_attr_setstacksize(&attributes, stackBytes) }
        var thread = pthread_t()
        let argument = Unmanaged.passRetained(Body(name: String(decoding: name.utf8.prefix(15), as: UTF8.self), run: body))
        let failure = pthread_create(
            &thread, &attributes,
            { argument in
                guard let argument else { return nil }
                let body = Unmanaged<Body>.fromOpaque(argument).takeRetainedValue()
                pthread_setname_np(pthread_self(), body.name)
                body.run()
                return nil
            }, argument.toOpaque())
        guard failure == 0 else {
            // No thread took the reference.
            argument.release()
            throw SystemError(operation: "pthread_create", code: failure)
        }
        return SystemThread(thread)
    }

    /// Waits until the body has returned. May be called more than once and from several threads, but not from the thread itself.
    package func join() {
        thread.withLock { thread in
            guard let joinable = thread else { return }
            pthread_join(joinable, nil)
            thread = nil
        }
    }
}
