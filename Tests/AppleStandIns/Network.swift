public import Dispatch

/// `Network`: only what `PushClient` calls, with the SDK's signatures.
public struct NWPath: Sendable {
    public enum Status: Sendable {
        case satisfied, unsatisfied, requiresConnection
    }

    public let status: Status
}

public final class NWPathMonitor: @unchecked Sendable {
    public init() { fatalError() }
    public var pathUpdateHandler: (@Sendable (_ newPath: NWPath) -> Void)?
    public func start(queue: DispatchQueue) { fatalError() }
}
