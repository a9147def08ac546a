import FoundationEssentials
import Synchronization

/// Filled once, after those who will look into it were made.
final class Box<Value: Sendable>: Sendable {
    private let content = Mutex<Value?>(nil)

    var value: Value? { content.withLock { $0 } }
    func open(_ value: Value) { content.withLock { $0 = value } }
}

enum UnixClock {
    static func now() -> Int64 { Int64(Date().timeIntervalSince1970 * 1000) }
}
