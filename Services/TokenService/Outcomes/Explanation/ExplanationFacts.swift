package import PushModel
package import TokenServiceApps
package import TokenServiceRegistry
package import TokenServiceSending

/// The stored data about one notification and one user, from which ``Explanation`` makes its sentences. Times are UNIX milliseconds.
package struct ExplanationFacts: Sendable {
    package var user: String
    package var notification: Notification
    /// The installations that the user is or was signed in on, as far as the history goes, in ascending order of id.
    package var installations: [Installation]
    /// There are more installations, or more jobs, than the explanation reads.
    package var isCutShort = false
    /// The holds that are in force on the notification now; the one that ends last comes first.
    package var holds: [Hold] = []
    /// The dispatchers' credentials for the app.
    package var credentials: [AppCredential] = []

    package struct Hold: Sendable {
        package var id: PushID
        package var scope: HoldScope
        package var reason: String
        package var setAt: Int64
        /// Nil: until it is lifted.
        package var endsAt: Int64?
    }

    package struct Notification: Sendable {
        package var id: PushID
        package var state: NotificationState
        package var lane: Lane
        package var pushType: PushType
        package var purpose: Purpose
        package var target: NotificationAddress
        package var receipts: NotificationRequest.Receipts
        package var acceptedAt: Int64
        package var notBefore: Int64?
        /// No delivery was made before, by the database's clock; nil if the acceptance made them.
        package var dueAt: Int64?
        package var localTime: String?
        package var expiresAt: Int64
        package var isUrgent: Bool
        package var isFannedOut: Bool
        /// All of its jobs were made then.
        package var expandedAt: Int64?
        package var completedAt: Int64?
        package var cancelledAt: Int64?
        package var cancelReason: String?
        package var total: Int
        /// The target names the user.
        package var namesUser: Bool
    }

    package struct Installation: Sendable {
        package var id: PushID
        /// The user's stays there, by owner epoch, in ascending order.
        package var stays: [Stay]
        package var throttledUntil: Int64?
        /// The permission as the app last reported it.
        package var permission: Permission?
        /// The target names the installation, or a token that it held.
        package var isNamed = false
        /// The epoch at acceptance, for a named target; nil if it was not stored.
        package var namedEpoch: Int64?
        /// The fan-out is still to look at the installation, and may mean its user.
        package var isAhead = false
        /// Nil where the target is no tag expression.
        package var matchesTags: Bool?
        /// The tokens for the notification's purpose, in the order of their registration.
        package var tokens: [ReachabilityState.Token] = []
        package var deliveries: [Delivery] = []
        package var fences: [Fence] = []
        /// The history since the notification was accepted, oldest first; of tokens only those for the notification's purpose.
        package var history: [HistoryEntry] = []
    }

    /// One stay of the user at an installation.
    package struct Stay: Equatable, Sendable {
        package var epoch: Int64
        /// Nil if the history does not reach back so far.
        package var from: Int64?
        /// Nil if it lasts, or the history does not say when it ended.
        package var to: Int64?
        /// Why it ended.
        package var reason: String?
        package var isNow = false
    }

    package struct Delivery: Sendable {
        package var record: NotificationStatus.Delivery
        /// It has a receipt. Without one it is under way, or APNs accepted it at the first attempt and only failures have receipts.
        package var hasReceipt: Bool
        /// Nil if no receipt says whom it was meant for.
        package var ownerEpoch: Int64?
        package var tokenID: Int64
        /// When the delivery's job is due; nil where that was removed, or a replay made the job.
        package var dueAt: Int64?
        /// Nil also if the broker's confirmation is not recorded yet.
        package var publishedAt: Int64?
    }

    package struct Fence: Sendable {
        package var epochsBelow: Int64
        package var at: Int64
        package var publishedAt: Int64?
    }
}
