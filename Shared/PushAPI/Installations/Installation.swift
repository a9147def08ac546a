public import Foundation

extension PushAPI {
    /// Whether the dispatchers have the order to send nothing more of an earlier user. `pending`: the service goes on trying.
    public enum Fence: String, Sendable, Hashable, Codable {
        case effective, pending, none
    }

    /// An installation as the service knows it.
    public struct Installation: Sendable, Hashable, Codable {
        public struct Token: Sendable, Hashable, Codable {
            /// The last six digits.
            public let hint: String
            public let environment: String
            public let purpose: String
            /// `active`, `doubtful` (no start of a Live Activity goes to it) or `retired`.
            public let state: String
            public let registeredAt: Date
            public let retiredAt: Date?
            /// `replaced`, `removed`, `deregistered`, `gone`, `rejected` or `stale`.
            public let retiredReason: String?
            /// When APNs last said that the token is over. It may have been registered again since.
            public let endedByApnsAt: Date?

            public var isActive: Bool { state == "active" }
        }

        public let id: String
        /// The user who is signed in.
        public let user: String?
        /// Grows with every change of the user.
        public let ownerEpoch: Int
        public let tokens: [Token]
        /// APNs asked to leave the device alone until then.
        public let throttledUntil: Date?
        public let registeredAt: Date
        public let createdAt: Date
        public let locale: String?
        public let timeZone: String?
        public let appVersion: String?
        public let osVersion: String?
        public let deviceModel: String?
        public let permission: String?
        /// Your backend's tags: no registration changes them.
        public let tags: [String]
        /// The app's own tags.
        public let appTags: [String]
        public let fence: Fence
        /// Legal but doubtful parts of a registration or change; nil where it was only read.
        public let warnings: [Receipt.Warning]?
        /// Names this state, for the parameter `ifMatch` of a change.
        public internal(set) var entityTag: String?
    }

    /// The answer to a sign-out of one installation.
    public struct SignOut: Sendable, Hashable, Codable {
        /// False if no user was signed in.
        public let signedOut: Bool
        public let ownerEpoch: Int
        public let fence: Fence
    }

    /// The answer to a sign-out of a user.
    public struct UserSignOut: Sendable, Hashable, Codable {
        /// How many installations.
        public let signedOut: Int
        public let fence: Fence
    }

    /// Lets the app on one device register and sign out that installation for one user.
    public struct DeviceCredential: Sendable, Hashable, Codable {
        /// The app sends it as `Authorization: Bearer psd_…`.
        public let credential: String
        public let installation: String
        public let user: String?
        public let expiresAt: Date
        /// The service's answer, to hand to the app as it is.
        public internal(set) var answer: JSON?

        private enum CodingKeys: String, CodingKey { case credential, installation, user, expiresAt }
    }
}
