public import Foundation

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
