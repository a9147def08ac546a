public import Foundation

/// What a service extension may change of a notification. The adaptor copies it from and to `UNMutableNotificationContent`.
public struct NotificationContent: Sendable, Hashable {
    /// A file that the notification shows. The adaptor makes it a `UNNotificationAttachment`.
    public struct Attachment: Sendable, Hashable {
        /// `UNNotificationAttachment.identifier`. ``AttachmentStep`` takes the file's address.
        public var identifier: String
        /// A file on the device. The system moves it.
        public var file: URL

        /// It does not check the file: at the delivery the adaptor leaves out a file that the system refuses.
        public init(identifier: String, file: URL) {
            self.identifier = identifier
            self.file = file
        }
    }

    /// `UNNotificationContent.title`; empty for none.
    public var title: String
    /// `UNNotificationContent.subtitle`; empty for none.
    public var subtitle: String
    /// `UNNotificationContent.body`; empty for none.
    public var body: String
    /// `UNNotificationContent.badge`: 0 removes the badge, and nil leaves it as it is.
    public var badge: Int?
    /// `UNNotificationContent.threadIdentifier`, by which the system groups; empty for none.
    public var threadID: String
    /// `UNNotificationContent.categoryIdentifier`, which chooses the action buttons; empty for none.
    public var category: String
    /// `UNNotificationContent.attachments`. The adaptor begins with none.
    public var attachments: [Attachment]
    /// The payload as it came. Steps read it, and do not change it.
    public let notification: PushNotification

    /// It takes texts from the arguments only, and none from the payload.
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
