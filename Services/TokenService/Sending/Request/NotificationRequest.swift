package import PushModel
package import TokenServiceRegistry

/// A sender's request, checked and with every default filled in.
package struct NotificationRequest: Equatable, Sendable {
    package var target: Target
    package var pushType: PushType
    /// Of the tokens that it goes to.
    package var purpose: Purpose
    package var priority: Int
    package var collapseID: String?
    /// `apns-expiration`, UNIX seconds; 0 = Apple tries once.
    package var apnsExpiration: Int64
    /// UNIX milliseconds: no push is sent from then on.
    package var expiresAt: Int64
    package var timing = Timing()
    package var lane: Lane
    package var onUnknown: PushJob.OnUnknown
    /// Older notifications to the same user or installation with the same key are stopped.
    package var supersedeKey: String?
    /// Nil: by the size of the audience.
    package var receipts: Receipts?
    /// Whether devices report what becomes of it.
    package var deviceReceipts = false
    package var content: NotificationContent
    /// What it does to a Live Activity that it names.
    package var activity: ActivityChange?
    /// Legal but doubtful parts of the request; the answer shows them to the sender.
    package var warnings: [NotificationWarning] = []

    /// The addressees. Lists hold no name twice and are in the sender's order.
    package enum Target: Equatable, Sendable {
        case user(String)
        case users([String])
        case installation(PushID)
        case installations([PushID])
        case tokens([DeviceToken])
        case tags(TagExpression)
        case all
        /// Every device whose Live Activity follows this channel, by one request to APNs.
        case channel(String, Fallback?)
    }

    /// How devices that cannot follow a channel get its broadcasts.
    package enum Fallback: String, Sendable, CaseIterable {
        /// The activities of the channel that have update tokens are updated one by one.
        case activities
    }

    /// Where a request states its addressees.
    package enum Addressing: Sendable {
        /// In `to`.
        case stated
        /// In `to`, as a list that may be longer.
        case upload
        /// The path names this channel.
        case channel(String)
    }

    /// When.
    package struct Timing: Equatable, Sendable {
        /// UNIX milliseconds; nil = at once.
        package var notBefore: Int64?
        /// Instead of `notBefore`: this time of day in each device's zone.
        package var localTime: LocalTime?
        /// Each delivery's own lifetime from the moment at which it is due, in milliseconds; it ends with `expiresAt` in any case.
        package var lifetime: Int64?
        /// Overrides the users' quiet hours.
        package var isUrgent = false

        package init(notBefore: Int64? = nil, localTime: LocalTime? = nil, lifetime: Int64? = nil, isUrgent: Bool = false) {
            self.notBefore = notBefore
            self.localTime = localTime
            self.lifetime = lifetime
            self.isUrgent = isUrgent
        }
    }

    /// The record that is kept of each delivery.
    package enum Receipts: String, Sendable, CaseIterable {
        /// One receipt for each delivery.
        case all
        /// Exact counters, and receipts of failures.
        case failures
    }
}
