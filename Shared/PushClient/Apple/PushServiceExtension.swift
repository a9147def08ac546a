// tvOS has no service extensions (Apple, "UNNotificationServiceExtension").
#if canImport(UserNotifications) && canImport(os) && !os(tvOS)
    import Foundation
    import os
    public import UserNotifications

    /// The base of an app's notification service extension: a subclass names its steps.
    ///
    ///     final class NotificationService: PushServiceExtension {
    ///         override var steps: [any NotificationStep] { [DecryptionStep { … }, AttachmentStep(source: URLSessionAttachmentSource())] }
    ///     }
    open class PushServiceExtension: UNNotificationServiceExtension {
        private let work = Guarded<ServiceExtensionWork?>(nil)

        /// One after another, as long as there is time.
        open var steps: [any NotificationStep] { [] }

        /// The system calls this for each push. It runs ``steps``, then delivers. It delivers a payload it cannot read unchanged.
        override open func didReceive(
            _ request: UNNotificationRequest, withContentHandler contentHandler: @escaping (UNNotificationContent) -> Void
        ) {
            guard let mutable = request.content.mutableCopy() as? UNMutableNotificationContent,
                let notification = try? PushNotification(userInfo: mutable.userInfo)
            else {
                contentHandler(request.content)
                return
            }
            let original = NotificationContent(
                notification, title: mutable.title, subtitle: mutable.subtitle, body: mutable.body, badge: mutable.badge?.intValue,
                threadID: mutable.threadIdentifier, category: mutable.categoryIdentifier)
            // The system's own objects are not Sendable. The lock hands them to the one delivery.
            let system = OSAllocatedUnfairLock(uncheckedState: (mutable, contentHandler))
            let begun = ServiceExtensionWork(original) { content in
                let (mutable, contentHandler) = system.withLockUnchecked { $0 }
                mutable.take(content)
                contentHandler(mutable)
            }
            work.withLock { $0 = begun }
            begun.begin(steps)
        }

        /// The system calls this shortly before it ends the extension. It delivers what the finished steps have made.
        override open func serviceExtensionTimeWillExpire() {
            let begun = work.withLock { $0 }
            begun?.deliver()
        }
    }

    extension UNMutableNotificationContent {
        fileprivate func take(_ content: NotificationContent) {
            title = content.title
            subtitle = content.subtitle
            body = content.body
            badge = content.badge.map { NSNumber(value: $0) }
            threadIdentifier = content.threadID
            categoryIdentifier = content.category
            // The system would refuse the whole notification for one bad file, and here it only throws.
            attachments = content.attachments.compactMap { attachment in
                try? UNNotificationAttachment(identifier: attachment.identifier, url: attachment.file, options: nil)
            }
        }
    }
#endif
