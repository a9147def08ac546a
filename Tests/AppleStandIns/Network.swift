public import Dispatch

/// `Network`: only what `PushClient` calls, with the SDK's signatures.
public struct NWPath: Sendable {
    public enum Status: Sendable {
        case satisfied, unsatisfied, requiresConnection
    }

    public let status: Status
}

/// Its page names no conformance to `Sendable`.
public final class NWPathMonitor {
    public init() { fatalError() }
    @preconcurrency public final var pathUpdateHandler: (@Sendable (_ newPath: NWPath) -> Void)?
    public func start(queue: DispatchQueue) { fatalError() }
}
