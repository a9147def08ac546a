/// `os`: only what `PushClient` calls, with the SDK's signatures.
@available(iOS 16.0, macOS 13.0, tvOS 16.0, watchOS 9.0, *)
public struct OSAllocatedUnfairLock<State>: @unchecked Sendable {
    public init(uncheckedState initialState: State) { fatalError() }
    public func withLockUnchecked<R>(_ body: (inout State) throws -> R) rethrows -> R { fatalError() }
}
