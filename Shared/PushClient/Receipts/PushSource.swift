public import Foundation

/// The platform's name of what a payload came with. The token service puts it into the payload, under the key `push-receipt`, if the sender
/// asks for device receipts; it finds the delivery by it.
public struct PushSource: Codable, Sendable, Hashable {
    /// The notification's id on the platform.
    public var notification: UUID
    /// The job's number among the notification's jobs, which are numbered from 0.
    public var job: Int

    /// Makes a source for tests. An app takes ``PushNotification/source``.
    public init(notification: UUID, job: Int) {
        self.notification = notification
        self.job = job
    }
}
