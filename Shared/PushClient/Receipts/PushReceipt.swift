public import Foundation

/// What happened to a notification on the device.
public struct PushReceipt: Codable, Sendable, Hashable {
    /// `shown` is what ``ReceiptStep`` leaves, `opened` a tap or an action. The raw values are those of the HTTP API.
    public enum Event: String, Codable, Sendable, Hashable {
        case shown, opened, dismissed
    }

    /// The delivery that it is about: the payload's `push-receipt`.
    public var source: PushSource
    /// The client counts the same event of a source once.
    public var event: Event
    /// The device's date then.
    public var at: Date

    /// Makes a receipt in an extension with a step of its own. An app calls ``PushClient/report(_:of:)`` instead.
    public init(source: PushSource, event: Event, at: Date) {
        self.source = source
        self.event = event
        self.at = at
    }
}
