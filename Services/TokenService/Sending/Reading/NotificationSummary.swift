package import PushModel
package import TokenServiceApps
package import TokenServiceKit
import TokenServiceRegistry

/// One notification in a list. Times are UNIX milliseconds.
package struct NotificationSummary: Equatable, Sendable {
    package var id: PushID
    package var state: NotificationState
    package var lane: Lane
    package var pushType: PushType
    package var target: NotificationAddress
    package var receipts: NotificationRequest.Receipts
    package var acceptedAt: Int64
    package var notBefore: Int64?
    /// The local time as the sender asked for it, without a zone: it is each device's own.
    package var localTime: String?
    package var expiresAt: Int64
    package var completedAt: Int64?
    package var cancelledAt: Int64?
    package var cancelReason: String?
    /// Deliveries so far, and how many of them have no outcome yet.
    package var total: Int
    package var pending: Int

    package static let page = PageResponse.schema("Notifications", "notifications", of: response)
    private static let response = ResponseSchema<OfApp<NotificationSummary>>.object(
        "NotificationSummary",
        [
            .required("id", .uuid) { $0.value.id },
            .required("app", .slug) { $0.app },
            .required("state", .word) { $0.value.state },
            .required("lane", .word) { $0.value.lane },
            .required("push_type", .word) { $0.value.pushType },
            .required("to", NotificationAddress.response) { $0.value.target },
            .required("receipts", .receipts) { $0.value.receipts },
            .required("accepted_at", .time) { $0.value.acceptedAt },
            .optional("not_before", .time) { $0.value.notBefore },
            .optional("local_time", .text(.localTimeAsked)) { $0.value.localTime },
            .required("expires_at", .time) { $0.value.expiresAt },
            .optional("completed_at", .time) { $0.value.completedAt },
            .optional("cancelled_at", .time) { $0.value.cancelledAt },
            .optional("cancel_reason", .text(.cancelReason)) { $0.value.cancelReason },
            .required("counts", counts, "Deliveries so far.") { $0.value },
        ])

    private static let counts = ResponseSchema<NotificationSummary>.object(
        nil, [.required("total", .count) { $0.total }, .required("pending", .count) { $0.pending }])
}

/// The target of a notification; of a list, its length. Never tokens.
package enum NotificationAddress: Equatable, Sendable {
    /// - Parameter activity: The Live Activity of theirs that it updates or ends.
    case user(String, activity: String? = nil)
    case users(Int)
    case installation(PushID, activity: String? = nil)
    case installations(Int)
    case tokens(Int)
    /// The expression's canonical text.
    case tags(String)
    case all
    case channel(String, NotificationRequest.Fallback?)

    package enum Kind: String, CaseIterable, Sendable {
        case user, users, installation, installations, tokens, tags, all, channel
        case channelAndActivities = "channel_and_activities"
    }

    package var kind: Kind {
        switch self {
        case .user: .user
        case .users: .users
        case .installation: .installation
        case .installations: .installations
        case .tokens: .tokens
        case .tags: .tags
        case .all: .all
        case .channel(_, let fallback): fallback == nil ? .channel : .channelAndActivities
        }
    }

    static let response = ResponseSchema<NotificationAddress>.object(
        "Address",
        [
            .required("kind", .word) { $0.kind },
            .optional("user", .text(.user)) { if case .user(let name, _) = $0 { name } else { nil } },
            .optional("installation", .uuid) { if case .installation(let id, _) = $0 { id } else { nil } },
            .optional("activity", .text(.string(Purpose.maximumNameBytes)), "The Live Activity of theirs that it updates or ends.") {
                switch $0 {
                case .user(_, let activity), .installation(_, let activity): activity
                case .users, .installations, .tokens, .tags, .all, .channel: nil
                }
            },
            .optional("count", .count, "Of a list: how many it names.") { $0.count },
            .optional("tags", .text(.string().example("ios-17 AND NOT muted")), "The expression.") {
                if case .tags(let expression) = $0 { expression } else { nil }
            },
            .optional("channel", .text(.string(Purpose.maximumNameBytes)), "The broadcast channel.") {
                if case .channel(let name, _) = $0 { name } else { nil }
            },
        ])

    private var count: Int? {
        switch self {
        case .users(let count), .installations(let count), .tokens(let count): count
        case .user, .installation, .tags, .all, .channel: nil
        }
    }
}
