import Glibc
import Synchronization

/// The only way for another thread to act on a connection: it shuts the socket down, so that a call that hangs in the library returns
/// (docs/rabbitmq.md, Calls that hang). It records when the descriptor is closed, so that it never touches a number that the system has
/// given to another file.
package final class SocketBreaker: Sendable {
    private let descriptor: Mutex<Int32?>

    init(_ descriptor: Int32) { self.descriptor = Mutex(descriptor) }

    /// Ends the connection both ways. Harmless when it is gone already.
    package func shutDown() {
        descriptor.withLock { descriptor in
            if let descriptor { _ = shutdown(descriptor, Int32(SHUT_RDWR)) }
        }
    }

    /// Lets go of the descriptor. Call it before the descriptor is closed.
    func disarm() { descriptor.withLock { $0 = nil } }
}
