public import Foundation

/// What happened to a notification on the device.
public struct PushReceipt: Codable, Sendable, Hashable {
    public enum Event: String, Codable, Sendable, Hashable {
        case shown, opened, dismissed
    }

    /// The delivery's id, which is the `apns-id` of its push.
    public var delivery: UUID
    public var event: Event
    /// The device's date then.
    public var at: Date

    public init(delivery: UUID, event: Event, at: Date) {
        self.delivery = delivery
        self.event = event
        self.at = at
    }
}
