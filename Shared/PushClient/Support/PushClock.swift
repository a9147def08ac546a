public import Foundation

/// Time for the library. Tests put a clock of their own here.
///
/// Waiting uses ``sleep(for:)``, which a change of the device's date does not touch. ``now`` stamps receipts only.
public protocol PushClock: Sendable {
    /// The date of the device, which its user may change.
    var now: Date { get }

    /// Returns after `duration`, or throws when the task is cancelled.
    func sleep(for duration: Duration) async throws
}

/// The device's own clock.
public struct SystemPushClock: PushClock {
    /// It holds no state: every instance reads the same clock.
    public init() {}

    /// See ``PushClock/now``.
    public var now: Date { Date() }

    /// See ``PushClock/sleep(for:)``.
    public func sleep(for duration: Duration) async throws {
        try await Task.sleep(for: duration)
    }
}
