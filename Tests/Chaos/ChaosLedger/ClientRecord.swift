package import PushModel

/// `clients.ndjson`: one request of the load generator, written once, when it was answered or given up. A repetition has its own record
/// with the same ``key`` and ``marker``.
package struct ClientRecord: LedgerRecord, Equatable {
    package enum Kind: String, Sendable, CaseIterable {
        /// PUT of an installation: its user (nil: no user) and all its tokens.
        case register
        /// Of ``installation``, else of the one that holds ``tokens``, else of ``user`` everywhere but on ``except``.
        case logout
        /// Of ``installation``, else of the one that holds ``tokens``.
        case deregister
        case send
        /// Of ``notification``.
        case cancel
        /// Of ``app`` (nil: all), ``lane``, ``notification``; the answer returns ``hold``.
        case hold
        /// Of ``hold``.
        case lift
        /// PUT of an activity: ``installation`` has ``activity``, which ``tokens`` update.
        case report
        /// DELETE of it there: the person has dismissed it.
        case dismiss
        case read
    }

    /// The kind of recipients of a notification.
    package enum Target: String, Sendable, CaseIterable {
        case user, users, installation, installations, tokens, tags, all
        /// Of the owner, who is ``user``.
        case activity
    }

    /// What a notification does to a Live Activity.
    package enum ActivityEvent: String, Sendable, CaseIterable {
        case start, update, end
    }

    /// The state of the fence, the cancellation or the hold in the answer.
    package enum Fence: String, Sendable, CaseIterable {
        case effective, pending, none
    }

    package var id: Int64
    package var kind: Kind
    package var app: String?
    /// Which token service was asked: `token-service-1`.
    package var service: String?
    package var sentAt: Int64
    /// nil: no answer came.
    package var answeredAt: Int64?
    package var status: Int?
    /// Seconds that the answer's `Retry-After` asks for; nil where it has none.
    package var retryAfter: Int?
    /// When the client stopped waiting, if no answer came.
    package var gaveUpAt: Int64?

    /// Register: the user who signs in. Logout: the user who signs out. Send: the recipient.
    package var user: String?
    package var users: [String] = []
    package var installation: PushID?
    package var except: PushID?
    package var tokens: [DeviceToken] = []
    /// Register: the device's tokens that start Live Activities.
    package var startTokens: [DeviceToken] = []
    package var target: Target?
    package var tags: String?
    /// Send: the lane in the answer, else the one that the client asked for. Hold: the lane to stop.
    package var lane: Lane?
    package var key: String?
    package var notBefore: Int64?
    package var expiresAt: Int64?
    /// Instead of ``expiresAt``: counted from the moment at which the request is accepted.
    package var ttlSeconds: Int?
    /// A number in the payload, unique for each notification that a client means to send, and the same in its repetitions.
    package var marker: Int64?
    /// The id of a Live Activity.
    package var activity: String?
    package var event: ActivityEvent?
    /// The activity's `timestamp`, UNIX seconds.
    package var timestamp: Int64?

    // The fields of the answer.
    package var epoch: Int64?
    package var fence: Fence?
    /// Send: the id in the answer. Cancel, hold: the notification to stop.
    package var notification: PushID?
    package var hold: PushID?

    package init(id: Int64, kind: Kind, app: String?, sentAt: Int64) {
        self.id = id
        self.kind = kind
        self.app = app
        self.sentAt = sentAt
    }
}
