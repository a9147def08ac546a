package import Postgres
import PushModel
import TokenServiceApps

/// The rows of `channels` of one plan, within one transaction that has locked the plan.
package struct ChannelStore {
    /// Apple's limit for an app in one environment.
    package static let maximumInScope = 10_000

    let session: PostgresSession
    let app: App.ID
    let environment: APNsEnvironment

    /// PostgreSQL's clock, by which every process says and sees what is due.
    package static func now(in session: PostgresSession) throws -> Int64 {
        try session.execute("SELECT clock_timestamp() AS now").only().milliseconds("now")
    }

    /// Waits for the other changes of the plan's channels.
    /// - Returns: nil where there never was a channel.
    static func lock(
        _ app: App.ID, _ environment: APNsEnvironment, in session: PostgresSession
    ) throws -> (store: ChannelStore, plan: ChannelPlan)? {
        try session.execute(
            "SELECT * FROM channel_scopes WHERE app_id = \(app) AND environment = \(environment) FOR NO KEY UPDATE"
        ).first.map { row in
            (ChannelStore(session: session, app: app, environment: environment), try ChannelPlan(row))
        }
    }

    /// Locks the plan, and makes it where there is none.
    static func lockOrMake(
        _ app: App.ID, _ environment: APNsEnvironment, in session: PostgresSession
    ) throws -> (store: ChannelStore, plan: ChannelPlan) {
        try session.execute(
            "INSERT INTO channel_scopes (app_id, environment) VALUES (\(app), \(environment)) ON CONFLICT DO NOTHING")
        guard let found = try lock(app, environment, in: session) else { throw CorruptRow(table: "channel_scopes") }
        return found
    }

    func save(_ plan: ChannelPlan) throws {
        try session.execute(
            """
            UPDATE channel_scopes SET listed_at = \(milliseconds: plan.listedAt), list_from = \(milliseconds: plan.listFrom),
                command = \(plan.command?.id), operation = \(plan.command?.operation), command_channel = \(plan.command?.channel),
                command_ends_at = \(milliseconds: plan.command?.endsAt), candidates = \(plan.candidates),
                due_at = \(milliseconds: plan.dueAt)
            WHERE app_id = \(app) AND environment = \(environment)
            """)
    }

    // MARK: Rows

    func find(_ id: BroadcastChannel.ID) throws -> BroadcastChannel? {
        try session.execute("SELECT * FROM channels WHERE id = \(id) AND app_id = \(app) AND environment = \(environment)").first.map {
            try BroadcastChannel($0)
        }
    }

    func find(appleID: ChannelID) throws -> BroadcastChannel? {
        try session.execute(
            "SELECT * FROM channels WHERE app_id = \(app) AND environment = \(environment) AND apple_id = \(appleID)"
        ).first.map { try BroadcastChannel($0) }
    }

    /// The one whose create may have made a channel at Apple.
    func uncertain() throws -> BroadcastChannel? {
        try session.execute(
            "SELECT * FROM channels WHERE app_id = \(app) AND environment = \(environment) AND creation IS NOT NULL"
        ).first.map { try BroadcastChannel($0) }
    }

    func all() throws -> [BroadcastChannel] {
        try session.execute("SELECT * FROM channels WHERE app_id = \(app) AND environment = \(environment) ORDER BY id").map {
            try BroadcastChannel($0)
        }
    }

    /// How many Apple has, or will have.
    func count() throws -> Int {
        try session.execute(
            """
            SELECT count(*) AS count FROM channels
            WHERE app_id = \(app) AND environment = \(environment) AND state IN ('creating', 'open', 'deleting', 'foreign')
            """
        ).only()["count"]
    }

    /// Finds the channels about which something is to be done.
    func waiting(_ plan: ChannelPlan) throws -> ChannelPlan.Waiting {
        let due = try session.execute(
            """
            (SELECT * FROM channels WHERE app_id = \(app) AND environment = \(environment) AND due_at IS NOT NULL
                AND creation IS NULL AND apple_id IS NULL ORDER BY due_at, id LIMIT 1)
            UNION ALL
            (SELECT * FROM channels WHERE app_id = \(app) AND environment = \(environment) AND due_at IS NOT NULL
                AND creation IS NULL AND apple_id IS NOT NULL ORDER BY due_at, id LIMIT 1)
            """
        ).map { try BroadcastChannel($0) }
        let candidates = try session.execute(
            """
            SELECT * FROM channels
            WHERE app_id = \(app) AND environment = \(environment) AND apple_id = ANY (\(plan.candidates ?? [])) AND state = 'foreign'
            ORDER BY id
            """
        ).map { try BroadcastChannel($0) }
        return ChannelPlan.Waiting(
            uncertain: try uncertain(), candidates: candidates, create: due.first { $0.appleID == nil },
            other: due.first { $0.appleID != nil })
    }

    @discardableResult
    func insert(_ channel: BroadcastChannel) throws -> BroadcastChannel {
        var channel = channel
        channel.id = try session.execute(
            """
            INSERT INTO channels (app_id, environment, name, apple_id, storage, state, due_at, created_at, changed_at)
            VALUES (\(app), \(environment), \(channel.name), \(channel.appleID), \(channel.storage), \(channel.state),
                \(milliseconds: channel.dueAt), \(milliseconds: channel.createdAt), \(milliseconds: channel.changedAt))
            RETURNING id
            """
        ).only()["id"]
        try insertUpdateTarget(channel.name)
        return channel
    }

    /// Makes the row of a channel's updates, once it has a name. It has the name for ever. The row of a former channel of the name begins
    /// anew, but for its end: the activities that it has ended stay so.
    private func insertUpdateTarget(_ name: String?) throws {
        guard let name else { return }
        try session.execute(
            """
            INSERT INTO update_targets (app_id, id) VALUES (\(app), \(name))
            ON CONFLICT (app_id, owned_by, id) DO UPDATE SET removed_at = NULL, stale_at = NULL, newest = NULL, newest_timestamp = NULL,
                is_waiting = false, sending = NULL, is_retrying = false, free_at = NULL, is_end = false, is_sending_end = false
            """)
    }

    /// Channels that Apple's list shows and no row has.
    func insertForeign(_ ids: [ChannelID], now: Int64) throws {
        guard !ids.isEmpty else { return }
        try session.execute(
            """
            INSERT INTO channels (app_id, environment, apple_id, state, created_at, changed_at)
            SELECT \(app), \(environment), found.id, 'foreign', \(milliseconds: now), \(milliseconds: now)
            FROM unnest(\(ids.map(\.text))::text[]) AS found (id)
            """)
    }

    /// - Returns: the channel as it is now; nil where its row is gone.
    @discardableResult
    func apply(_ event: BroadcastChannel.Event, to channel: BroadcastChannel, now: Int64) throws -> BroadcastChannel? {
        var changed = channel
        guard changed.apply(event, now: now) else {
            // In the order of locks. The row says for a while that it has ended activities.
            try session.execute(
                "UPDATE update_targets SET removed_at = now() WHERE app_id = \(app) AND owned_by = 'channel' AND id = \(channel.name)")
            try session.execute("DELETE FROM channels WHERE app_id = \(app) AND id = \(channel.id)")
            return nil
        }
        guard changed != channel else { return channel }
        if channel.name == nil { try insertUpdateTarget(changed.name) }
        try session.execute(
            """
            UPDATE channels SET name = \(changed.name), apple_id = \(changed.appleID), storage = \(changed.storage),
                state = \(changed.state), creation = \(changed.creation), reason = \(changed.reason),
                due_at = \(milliseconds: changed.dueAt), changed_at = \(milliseconds: changed.changedAt)
            WHERE app_id = \(app) AND id = \(channel.id)
            """)
        return changed
    }
}

/// What broadcasts reveal about channels of every app: their outcomes name a channel by its id, no request does.
package enum ChannelAbsence {
    /// A broadcast was answered `ChannelNotRegistered`. Idempotent; a channel that is not open stays as it is.
    package static func note(of id: BroadcastChannel.ID, now: Int64, in session: PostgresSession) throws {
        guard let row = try session.execute("SELECT app_id, environment FROM channels WHERE id = \(id)").first,
            let (store, _) = try ChannelStore.lock(row["app_id"], row["environment"], in: session), let channel = try store.find(id),
            channel.state == .open
        else { return }
        try store.apply(.absent, to: channel, now: now)
    }
}
