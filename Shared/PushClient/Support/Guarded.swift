#if canImport(os)
    import os
#else
    import Synchronization
#endif

/// A value behind a lock. The oldest supported versions have no `Synchronization.Mutex`, so Apple's platforms use `OSAllocatedUnfairLock`.
///
/// A body must be short. It must not call the app's code, nor let go of the last reference to an object of the app's: the app may call the
/// library back, from a `deinit` too. Only a ``PushStore`` is called under a lock, and it must not call back.
final class Guarded<Value>: Sendable {
    #if canImport(os)
        private let lock: OSAllocatedUnfairLock<Value>

        init(_ value: sending Value) {
            lock = OSAllocatedUnfairLock(uncheckedState: value)
        }

        func withLock<Result>(_ body: (inout Value) throws -> Result) rethrows -> Result {
            try lock.withLockUnchecked(body)
        }
    #else
        private let mutex: Mutex<Value>

        init(_ value: sending Value) {
            mutex = Mutex(value)
        }

        func withLock<Result>(_ body: (inout sending Value) throws -> sending Result) rethrows -> sending Result {
            try mutex.withLock(body)
        }
    #endif
}
