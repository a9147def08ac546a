/// One message in `push.jobs`: one notification's payload and headers, and up to ``maximumDeliveries`` deliveries.
///
/// Times are UNIX milliseconds, except `apnsExpiration`, which is a header's value in seconds.
package struct PushJob: Equatable, Sendable {
    /// The version this program writes. A reader refuses a greater one.
    package static let currentVersion = 1
    package static let maximumDeliveries = 100
    /// Header of a job that was replayed: what its attempts are counted from in outcomes, so that an event of an earlier life tells itself
    /// apart. Kept through retries.
    package static let earlierAttemptsHeader = "push-earlier-attempts"
    /// Header of each job: ``app``, so that a dispatcher shares out fairly what it has not decoded. Kept through retries.
    package static let appHeader = "push-app"

    package var notification: PushID
    package var app: AppSlug
    package var lane: Lane
    package var pushType: PushType
    package var topic: String
    package var priority: Int
    package var collapseID: String?
    /// `apns-expiration`: absolute UNIX seconds; 0 = Apple tries once; nil = Apple's default.
    package var apnsExpiration: Int64?
    /// Nothing of this job is sent at or after this moment.
    package var expiresAt: Int64
    package var acceptedAt: Int64
    /// How many times the deliveries in this job were handed to APNs, or tried to, before.
    package var attempt: Int
    package var onUnknown: OnUnknown
    /// The APNs body, verbatim.
    package var payload: [UInt8]
    package var deliveries: [Delivery]

    /// What to do when a request left and no answer came. The token service decides; a job carries what is left of the decision.
    package enum OnUnknown: String, Sendable, CaseIterable {
        /// Send again under the same ids: at least once.
        case resend
        /// Send once more, at once, while the notification is young; that copy's job says ``drop``.
        case resendOnce = "resend_once"
        /// Give up: at most once.
        case drop
    }

    /// One notification × one token.
    package struct Delivery: Equatable, Sendable {
        /// The delivery's place in the jobs of its notification: the same on every attempt, and the `apns-id`.
        package var id: PushID
        package var token: DeviceToken
        package var environment: APNsEnvironment
        package var installation: PushID
        /// The installation's owner epoch when the delivery was made; a fence above it stops the delivery.
        package var ownerEpoch: Int64
        package var environmentTrial: EnvironmentTrial
        package var earlierOutcome: EarlierOutcome

        package init(
            id: PushID, token: DeviceToken, environment: APNsEnvironment, installation: PushID, ownerEpoch: Int64,
            environmentTrial: EnvironmentTrial = .none, earlierOutcome: EarlierOutcome = .none
        ) {
            self.id = id
            self.token = token
            self.environment = environment
            self.installation = installation
            self.ownerEpoch = ownerEpoch
            self.environmentTrial = environmentTrial
            self.earlierOutcome = earlierOutcome
        }
    }

    /// What the attempts before this one came to, the worst of them. It decides how a delivery ends of which nothing more is sent
    /// (``OutcomeClass/after(_:)``).
    package enum EarlierOutcome: String, Sendable, CaseIterable, Comparable {
        /// Nothing of it has left.
        case none
        /// APNs answered that it could not take it now.
        case failed
        /// One left and got no answer: it may have arrived.
        case unknown

        package static func < (left: EarlierOutcome, right: EarlierOutcome) -> Bool {
            left == .none && right != .none || left == .failed && right == .unknown
        }
    }

    /// A token of the other environment looks like garbage. Where APNs never accepted the token, the environment is only the client's word.
    package enum EnvironmentTrial: String, Sendable, CaseIterable {
        case none
        /// On `BadDeviceToken`, the delivery may be tried once in the other environment.
        case allowed
        /// This is that try: `environment` is not the one that the token was registered for.
        case made
    }

    package init(
        notification: PushID, app: AppSlug, lane: Lane, pushType: PushType, topic: String, priority: Int, collapseID: String? = nil,
        apnsExpiration: Int64? = nil, expiresAt: Int64, acceptedAt: Int64, attempt: Int = 0, onUnknown: OnUnknown,
        payload: [UInt8], deliveries: [Delivery]
    ) {
        self.notification = notification
        self.app = app
        self.lane = lane
        self.pushType = pushType
        self.topic = topic
        self.priority = priority
        self.collapseID = collapseID
        self.apnsExpiration = apnsExpiration
        self.expiresAt = expiresAt
        self.acceptedAt = acceptedAt
        self.attempt = attempt
        self.onUnknown = onUnknown
        self.payload = payload
        self.deliveries = deliveries
    }
}
