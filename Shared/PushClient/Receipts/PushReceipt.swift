public import Foundation

/// What happened to a notification on the device.
public struct PushReceipt: Codable, Sendable, Hashable {
    public enum Event: String, Codable, Sendable, Hashable {
        case shown, opened, dismissed
    }

    public var source: PushSource
    public var event: Event
    /// The device's date then.
    public var at: Date

    public init(source: PushSource, event: Event, at: Date) {
        self.source = source
        self.event = event
        self.at = at
    }
}
