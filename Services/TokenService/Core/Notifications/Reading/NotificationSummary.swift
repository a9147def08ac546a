package import PushModel
package import StrictJSON

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
    /// As it was asked for, without a zone: it is each device's own.
    package var localTime: String?
    package var expiresAt: Int64
    package var completedAt: Int64?
    package var cancelledAt: Int64?
    package var cancelReason: String?
    /// Deliveries so far, and how many of them have no outcome yet.
    package var total: Int
    package var pending: Int

    package func write(to writer: inout JSONWriter, app: AppSlug) {
        writer.object { object in
            object.field("id", id.description)
            object.field("app", app.text)
            object.field("state", state.rawValue)
            object.field("lane", lane.rawValue)
            object.field("push_type", pushType.rawValue)
            object.name("to")
            target.write(to: &object)
            object.field("receipts", receipts.rawValue)
            object.time("accepted_at", acceptedAt)
            object.time("not_before", notBefore)
            object.field("local_time", localTime)
            object.time("expires_at", expiresAt)
            object.time("completed_at", completedAt)
            object.time("cancelled_at", cancelledAt)
            object.field("cancel_reason", cancelReason)
            object.object("counts") { counts in
                counts.field("total", total)
                counts.field("pending", pending)
            }
        }
    }
}

/// Whom a notification names; of a list, how many. Tokens are never told.
package enum NotificationAddress: Equatable, Sendable {
    case user(String)
    case users(Int)
    case installation(PushID)
    case installations(Int)
    case tokens(Int)
    /// The expression's canonical text.
    case tags(String)
    case all

    package enum Kind: String, CaseIterable, Sendable {
        case user, users, installation, installations, tokens, tags, all
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
        }
    }

    package func write(to writer: inout JSONWriter) {
        writer.object { object in
            object.field("kind", kind.rawValue)
            switch self {
            case .user(let name): object.field("user", name)
            case .installation(let id): object.field("installation", id.description)
            case .users(let count), .installations(let count), .tokens(let count): object.field("count", count)
            case .tags(let expression): object.field("tags", expression)
            case .all: break
            }
        }
    }
}
