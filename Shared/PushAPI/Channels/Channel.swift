public import Foundation

extension PushAPI {
    /// A broadcast channel: one push to it reaches every Live Activity that follows it.
    public struct Channel: Sendable, Hashable, Codable {
        /// A word of the service; a later version may have more.
        public struct State: RawRepresentable, Sendable, Hashable, Codable {
            public let rawValue: String

            public init(rawValue: String) { self.rawValue = rawValue }

            /// Apple has not answered yet.
            public static let creating = State(rawValue: "creating")
            /// It exists at Apple.
            public static let open = State(rawValue: "open")
            /// Apple is still to delete it.
            public static let deleting = State(rawValue: "deleting")
            /// Apple refused to create it.
            public static let failed = State(rawValue: "failed")
            /// It exists at Apple, and another program made it.
            public static let foreign = State(rawValue: "foreign")
            /// It was open, and Apple does not have it any more.
            public static let lost = State(rawValue: "lost")
        }

        /// What APNs keeps for devices that are offline.
        public enum Storage: String, Sendable, Hashable, Codable, CaseIterable {
            case none
            /// The newest broadcast, for at most eight hours.
            case latest
        }

        /// Nil for a channel that no backend has named.
        public let name: String?
        public let environment: String
        /// Nil until Apple has said it.
        public let storage: Storage?
        /// Apple's id, which the app subscribes to. Nil until Apple has answered.
        public let channelId: String?
        public let state: State
        /// Why Apple refused it, or why it waits.
        public let reason: String?
        public let createdAt: Date
        /// When its state changed last.
        public let changedAt: Date
        /// Live Activities that follow it, counted to 10,000; nil in lists.
        public let followers: Int?
    }

    public struct ChannelPage: Sendable, Hashable, Codable {
        public let channels: [Channel]
        /// Nil on the last page.
        public let nextCursor: String?
    }
}
