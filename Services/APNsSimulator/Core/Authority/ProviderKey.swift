package import OpenSSL

/// A signing key that the simulator accepts, as Apple accepts the keys of its developer accounts.
package struct ProviderKey: Sendable {
    /// The treatment of a key's tokens: they are good, `Forbidden`, or `InvalidProviderToken`.
    package enum State: String, Sendable, CaseIterable {
        case active, suspended, revoked
    }

    package let teamID: String
    package let keyID: String
    package let publicKey: ES256PublicKey
    package let environments: Set<SimulatorEnvironment>
    /// A topic-specific key's bundle ids or whole topics; nil is a team-scoped key: every topic.
    package let topics: [String]?
    /// The key is known, its tokens are good, and every request with them is `Forbidden`.
    package let isSuspended: Bool

    package init(
        teamID: String, keyID: String, publicKey: ES256PublicKey,
        environments: Set<SimulatorEnvironment> = Set(SimulatorEnvironment.allCases), topics: [String]? = nil,
        isSuspended: Bool = false
    ) {
        self.teamID = teamID
        self.keyID = keyID
        self.publicKey = publicKey
        self.environments = environments
        self.topics = topics
        self.isSuspended = isSuspended
    }

    func suspended(_ isSuspended: Bool) -> ProviderKey {
        ProviderKey(
            teamID: teamID, keyID: keyID, publicKey: publicKey, environments: environments, topics: topics, isSuspended: isSuspended)
    }

    /// Whether the key may be used for the topic: named itself, or as the bundle id before one of Apple's suffixes.
    func allows(topic: [UInt8]) -> Bool {
        guard let topics else { return true }
        let bundleID = PushType.bundleID(of: topic)
        return topics.contains { $0.utf8.elementsEqual(topic) || $0.utf8.elementsEqual(bundleID) }
    }

    /// Whether a connection that began with `first` may also see this key: another team-scoped key of the same team may follow a
    /// team-scoped one; a topic-specific key stands alone (Apple: Establishing a token-based connection to APNs).
    func isRelated(to first: ProviderKey) -> Bool {
        keyID == first.keyID || (topics == nil && first.topics == nil)
    }
}
