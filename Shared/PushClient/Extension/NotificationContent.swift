public import Foundation

/// What a service extension may change of a notification. The adaptor copies it from and to `UNMutableNotificationContent`.
public struct NotificationContent: Sendable, Hashable {
    public struct Attachment: Sendable, Hashable {
        public var identifier: String
        /// A file on the device. The system moves it.
        public var file: URL

        public init(identifier: String, file: URL) {
            self.identifier = identifier
            self.file = file
        }
    }

    public var title: String
    public var subtitle: String
    public var body: String
    public var badge: Int?
    public var threadID: String
    public var category: String
    public var attachments: [Attachment]
    /// The payload as it came. Steps read it, and do not change it.
    public let notification: PushNotification

    public init(
        _ notification: PushNotification, title: String = "", subtitle: String = "", body: String = "", badge: Int? = nil,
        threadID: String = "", category: String = "", attachments: [Attachment] = []
    ) {
        self.notification = notification
        self.title = title
        self.subtitle = subtitle
        self.body = body
        self.badge = badge
        self.threadID = threadID
        self.category = category
        self.attachments = attachments
    }
}

/// One improvement that a service extension makes, such as a decryption or a download.
public protocol NotificationStep: Sendable {
    /// Returns the better content. If it throws, the content stays as it was, and the next step follows.
    func improve(_ content: NotificationContent) async throws -> NotificationContent
}
