import Postgres
import PushModel
import TokenServiceRegistry

/// A channel as the member of a broadcast's job. Its id among the job's members is negated: those of tokens are positive.
package struct BroadcastMember: Sendable {
    /// How long APNs keeps a broadcast, in seconds.
    static let longestStorage: Int64 = 8 * 3600
    /// A broadcast's delivery is to no installation, and of no owner's epoch.
    private static let (installation, ownerEpoch) = (PushID.lowest, Int64(1))

    let id: BroadcastChannel.ID
    /// What the activities that follow it have as their channel; nil if it has no name.
    let followed: Int64?
    let channelID: ChannelID
    let environment: APNsEnvironment
    let storage: ChannelStorage
    let bundleID: String
    /// Apple has it, as far as the platform knows.
    let isOpen: Bool

    /// The channel's id among a job's members.
    var memberID: Int64 { -id }

    func delivery(_ delivery: PushID) -> PushJob.Delivery {
        PushJob.Delivery(
            id: delivery, token: channelID.asToken, environment: environment, installation: Self.installation,
            ownerEpoch: Self.ownerEpoch, environmentTrial: .none)
    }

    var found: PendingFanOut.Found {
        PendingFanOut.Found(
            tokenID: memberID, token: channelID.asToken, environment: environment, installation: Self.installation,
            ownerEpoch: Self.ownerEpoch, isUnproven: false, locale: nil, dueAt: nil, hasMoved: false)
    }

    /// Whether a member of a job is a channel.
    package static func isChannel(_ member: Int64) -> Bool { member < 0 }
    package static func channel(of member: Int64) -> BroadcastChannel.ID { -member }

    /// Reads which of these members are channels Apple has or had.
    static func load(_ members: some Sequence<Int64>, in session: PostgresSession) throws -> [Int64: BroadcastMember] {
        let ids = members.filter(isChannel).map(channel)
        guard !ids.isEmpty else { return [:] }
        return Dictionary(uniqueKeysWithValues: try load(ids: ids, key: nil, in: session).map { ($0.memberID, $0) })
    }

    static func load(_ key: UpdateTarget.Key, in session: PostgresSession) throws -> BroadcastMember? {
        try load(ids: [], key: key, in: session).first
    }

    private static func load(ids: [Int64], key: UpdateTarget.Key?, in session: PostgresSession) throws -> [BroadcastMember] {
        try session.execute(
            """
            SELECT c.id, c.apple_id, c.environment, c.storage, c.state, a.bundle_id, (
                SELECT ordinal FROM update_targets q WHERE q.app_id = c.app_id AND q.owned_by = 'channel' AND q.id = c.name
            ) AS followed FROM channels c JOIN apps a ON a.id = c.app_id
            WHERE (c.id = ANY (\(ids)) OR c.app_id = \(key?.app) AND c.name = \(key?.id)) AND num_nulls(c.apple_id, c.storage) = 0
            """
        ).map { row in
            BroadcastMember(
                id: try row["id"], followed: try row["followed"], channelID: try row["apple_id"], environment: try row["environment"],
                storage: try row["storage"], bundleID: try row["bundle_id"], isOpen: try row["state"] as BroadcastChannel.State == .open)
        }
    }
}
