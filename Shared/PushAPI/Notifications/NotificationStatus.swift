public import Foundation

extension PushAPI {
    /// What became of a notification.
    public struct NotificationStatus: Sendable, Hashable, Codable {
        /// How many deliveries ended in one way.
        public struct Reason: Sendable, Hashable, Codable {
            /// `accepted`, `token_gone`, `rejected` and so on.
            public let outcome: String
            /// APNs' HTTP status.
            public let status: Int?
            public let reason: String?
            public let count: Int

            private enum CodingKeys: String, CodingKey {
                case outcome = "class"
                case status, reason, count
            }
        }

        public let id: String
        public let state: NotificationState
        public let lane: String
        public let pushType: String
        public let acceptedAt: Date
        public let expiresAt: Date
        public let completedAt: Date?
        public let cancelledAt: Date?
        /// `cancelled` or `superseded`.
        public let cancelReason: String?
        /// When it is due.
        public let notBefore: Date?
        /// The same by the clock where each device is.
        public let localTime: String?
        /// Exact: `total`, `pending`, and each outcome class, as `accepted`.
        public let counts: [String: Int]
        public let reasons: [Reason]
        /// Deliveries that devices reported as `shown`, `opened`, `dismissed`; nil if the sender did not ask for it.
        public let deviceReceipts: [String: Int]?
        /// The deliveries, at most 1,000, pending ones first. ``PushAPI/App/deliveries(of:state:reason:installation:)`` gives all.
        public let deliveries: [Delivery]
        /// There are more deliveries than are listed. Nil: there are not.
        public let deliveriesTruncated: Bool?
    }

    /// One push to one token.
    public struct Delivery: Sendable, Hashable, Codable {
        /// A try that was not the last.
        public struct Attempt: Sendable, Hashable, Codable {
            public let outcome: String
            public let status: Int?
            public let reason: String?
            public let at: Date?
            public let retryAt: Date?

            private enum CodingKeys: String, CodingKey {
                case outcome = "class"
                case status, reason, at, retryAt
            }
        }

        /// The delivery's id, which is the `apns-id`, too.
        public let id: String
        public let installation: String
        /// The token's last six digits.
        public let hint: String
        public let environment: String
        /// `pending`, or the outcome class.
        public let state: String
        /// APNs' HTTP status.
        public let status: Int?
        /// APNs' word in CamelCase, or the platform's in snake_case.
        public let reason: String?
        public let attempts: Int
        public let lastAttempt: Attempt?
        /// APNs' id of the last push, which Apple's Push Notifications Console finds. Only the sandbox sends one.
        public let apnsUniqueId: String?
        /// When it was shown, as the device reported; so are the next two.
        public let shownAt: Date?
        public let openedAt: Date?
        public let dismissedAt: Date?
        public let updatedAt: Date
    }

    /// The answer to a cancellation.
    public struct Cancellation: Sendable, Hashable, Codable {
        public let id: String
        /// Another state than `cancelled`: it was too late.
        public let state: NotificationState
        /// Deliveries without an outcome when it was stopped.
        public let stoppable: Int
        /// More deliveries would have followed. Nil: none would.
        public let notExpanded: Bool?
        public let fence: Fence
    }

    /// Why a notification reached a user, or did not.
    public struct Explanation: Sendable, Hashable, Codable {
        public struct Step: Sendable, Hashable, Codable {
            /// Nil if the service did not store the moment.
            public let at: Date?
            /// What happened, for programs, as `delivery_made`.
            public let what: String
            /// The reason in words for people.
            public let why: String
        }

        public let state: NotificationState
        /// `sent`, `waiting`, `unknown`, `not_sent`, `not_addressed` or `not_recorded`.
        public let conclusion: String
        /// One sentence.
        public let explanation: String
        public let steps: [Step]
        /// There is more than was looked at. Nil: there is not.
        public let isCutShort: Bool?
    }

    /// What a notification would do.
    public struct Validation: Sendable, Hashable, Decodable {
        public struct Payload: Sendable, Hashable, Decodable {
            /// Nil for the default.
            public let locale: String?
            public let bytes: Int
            public let maximumBytes: Int
            /// The payload as APNs would get it.
            public internal(set) var payload = JSON(unchecked: [])

            private enum CodingKeys: String, CodingKey { case locale, bytes, maximumBytes }
        }

        public struct Audience: Sendable, Hashable, Decodable {
            /// Why devices would not be sent to, or not at once.
            public struct Reason: Sendable, Hashable, Decodable {
                public let reason: String
                /// `sent`, `delayed` or `not_sent`.
                public let effect: String
                public let devices: Int
                public let detail: String
            }

            /// Would be sent to, some of them later.
            public let devices: Int
            public let deliveries: Int
            /// How many devices show an alert `fully`, `quietly`, `not_at_all`, and how many are `unknown`.
            public let displays: [String: Int]?
            /// How many of these devices, with a local time or quiet hours, have no known time zone, and so count as UTC.
            public let unknownTimeZones: Int?
            /// Whether not everything was looked at.
            public let isLowerBound: Bool
            public let reasons: [Reason]
        }

        public let pushType: String
        public let topic: String
        public let priority: Int
        public let lane: String
        /// When it is due; nil: at once, or at ``localTime``.
        public let notBefore: Date?
        /// By the clock where each device is.
        public let localTime: String?
        /// With a local time: how long after it is due in its time zone.
        public let lifetimeSeconds: Int?
        public let expiresAt: Date
        /// UNIX seconds, 0 for one try.
        public let apnsExpiration: Int
        /// `resend`, `resend_once` or `drop`.
        public let onUnknown: String
        /// The expression as the service understood it.
        public let tags: String?
        public internal(set) var payloads: [Payload]
        public let warnings: [Receipt.Warning]
        public let audience: Audience
    }
}

extension PushAPI {
    /// The answer to a notification that the service has committed and will send.
    public struct Receipt: Sendable, Hashable, Codable {
        /// A legal but doubtful part of the notification.
        public struct Warning: Sendable, Hashable, Codable {
            /// A JSON pointer into the notification.
            public let pointer: String
            public let code: String
            public let detail: String
        }

        public let id: String
        public let state: NotificationState
        public let lane: String
        public let pushType: String
        /// How many tokens; nil if the service finds them later.
        public let deliveries: Int?
        public let acceptedAt: Date
        public let expiresAt: Date
        /// Of an item of a batch whose idempotency key was used before: this is the first answer again.
        public let replay: Bool?
        public let warnings: [Warning]
    }

    /// Where a notification is in its life. A later version of the service may know more states.
    public struct NotificationState: RawRepresentable, Sendable, Hashable, Codable {
        public let rawValue: String

        public init(rawValue: String) { self.rawValue = rawValue }

        public static let accepted = NotificationState(rawValue: "accepted")
        public static let scheduled = NotificationState(rawValue: "scheduled")
        public static let expanding = NotificationState(rawValue: "expanding")
        public static let sending = NotificationState(rawValue: "sending")
        public static let completed = NotificationState(rawValue: "completed")
        public static let cancelled = NotificationState(rawValue: "cancelled")
        public static let expired = NotificationState(rawValue: "expired")
        public static let noTargets = NotificationState(rawValue: "no_targets")

        /// Nothing more of it is sent, unless an operator replays a dead letter.
        public var isEnd: Bool { [.completed, .cancelled, .expired, .noTargets].contains(self) }
    }
}
