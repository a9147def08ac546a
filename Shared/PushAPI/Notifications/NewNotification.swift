public import Foundation
import StrictJSON

extension PushAPI {
    /// Who gets a notification. A list has 1 to 1,000 entries.
    public enum Target: Sendable, Hashable {
        /// Every device on which the user is signed in.
        case user(String)
        case users([String])
        case installation(String)
        case installations([String])
        case tokens([String])
        /// An expression, as `beta AND NOT muted`.
        case tags(String)
        /// Every installation of the app.
        case all
        /// The devices that have this Live Activity of the user; only with event update and end.
        case activity(String, of: String)
        /// The devices that have this Live Activity of an installation without a user.
        case activityOfInstallation(String, id: String)
        /// The only Live Activity of this attributes type that the user has; only with event update and end.
        case activityOfUser(String, type: String)

        fileprivate func write(_ to: inout JSONWriter) {
            switch self {
            case .user(let user): to.field("user", user)
            case .users(let users): to.field("users", users)
            case .installation(let id): to.field("installation", id)
            case .installations(let ids): to.field("installations", ids)
            case .tokens(let tokens): to.field("tokens", tokens)
            case .tags(let expression): to.field("tags", expression)
            case .all: to.field("all", true)
            case .activity(let id, let user):
                to.field("user", user)
                to.field("activity", id)
            case .activityOfInstallation(let installation, let id):
                to.field("installation", installation)
                to.field("activity", id)
            case .activityOfUser(let user, let type):
                to.field("user", user)
                to.field("activity_type", type)
            }
        }
    }

    /// What a notification shows.
    public enum Content: Sendable, Hashable {
        /// Apple's fields with underscores, which the service checks: `["alert": ["title": "Your order is packed"], "badge": 1]`.
        case content(JSON)
        /// The whole APNs body, which Apple gets byte for byte: `["aps": ["alert": "Hello"]]`.
        case payload(JSON)

        /// An alert with a title and a text.
        public static func alert(title: String, body: String? = nil) -> Content {
            .content(
                JSON(
                    unchecked: JSONWriter.object { content in
                        content.object("alert") { alert in
                            alert.field("title", title)
                            alert.field("body", body)
                        }
                        content.field("sound", "default")
                    }))
        }

        func write(_ body: inout JSONWriter) {
            switch self {
            case .content(let json): body.field("content", raw: json.bytes)
            case .payload(let json): body.field("payload", raw: json.bytes)
            }
        }
    }

    /// A notification to be sent. The guide "Send and follow" explains each field; what is nil the service decides.
    public struct NewNotification: Sendable, Hashable {
        public var to: Target
        public var content: Content
        /// What devices of a locale get instead, by language tag.
        public var locales: [String: Content] = [:]
        public var pushType: String?
        /// The id of the Live Activity that it starts, under which updates and ends address it beside its user.
        public var activity: String?
        /// 10, 5 or 1.
        public var priority: Int?
        public var collapseID: String?
        /// When it is due.
        public var notBefore: Date?
        /// `2026-11-22T09:00`: due at this time by the clock where each device is.
        public var localTime: String?
        /// The moment after which nothing is sent.
        public var expiresAt: Date?
        /// The time from when it is due after which nothing is sent, in whole seconds.
        public var timeToLive: Duration?
        /// How long APNs may keep it. UNIX seconds, 0: not at all.
        public var apnsExpiration: Int?
        /// Whether it is sent in quiet hours, too.
        public var isUrgent: Bool?
        /// `now`, `soon` or `bulk`.
        public var lane: String?
        /// Stops older notifications to the same user or installation with this key.
        public var supersedeKey: String?
        /// `all` or `failures`.
        public var receipts: String?
        /// Devices with PushClient report that they showed, opened or dismissed it.
        public var deviceReceipts: Bool?
        /// `resend`, `resend_once` or `drop`.
        public var onUnknown: String?

        public init(to: Target, _ content: Content) {
            self.to = to
            self.content = content
        }

        var json: [UInt8] {
            JSONWriter.object { body in
                body.object("to", to.write)
                content.write(&body)
                if !locales.isEmpty {
                    body.object("locales") { object in
                        for (locale, content) in locales.sorted(by: { $0.key < $1.key }) { object.object(locale, content.write) }
                    }
                }
                body.field("push_type", pushType)
                body.field("activity", activity)
                body.field("priority", priority)
                body.field("collapse_id", collapseID)
                body.field("not_before", notBefore?.rfc3339)
                body.field("local_time", localTime)
                body.field("expires_at", expiresAt?.rfc3339)
                body.field("ttl_seconds", timeToLive?.components.seconds)
                body.field("apns_expiration", apnsExpiration)
                body.field("urgent", isUrgent)
                body.field("lane", lane)
                body.field("supersede_key", supersedeKey)
                body.field("receipts", receipts)
                body.field("device_receipts", deviceReceipts)
                body.field("on_unknown", onUnknown)
            }
        }
    }

    /// A notification of a batch.
    public struct BatchItem: Sendable, Hashable {
        public var notification: NewNotification
        /// The same key again, with the same notification, sends nothing new.
        public var idempotencyKey: String

        public init(_ notification: NewNotification, idempotencyKey: String? = nil) {
            self.notification = notification
            self.idempotencyKey = idempotencyKey ?? UUID().uuidString
        }
    }
}
