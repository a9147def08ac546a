import Postgres
import PushModel
import TokenServiceApps
import TokenServiceRegistry

/// The SQL that erases one user of one app. Every method is one bounded step.
struct ErasureStore {
    /// History rows that one transaction removes.
    static let historyBatch = 5000
    static let notificationBatch = 100

    let session: PostgresSession
    let app: App
    let user: String

    init(_ session: PostgresSession, app: App, user: String) {
        self.session = session
        self.app = app
        self.user = user
    }

    /// A finished time of the user at an installation, whose history and receipts are not removed yet. Two of one installation may overlap.
    struct Ended: Sendable {
        var installation: PushID
        var epochsFrom: Int64
        var epochsBelow: Int64
        var historyFrom: Int64
        var historyTo: Int64
        /// UNIX milliseconds.
        var beganAt: Int64
        /// UNIX milliseconds.
        var at: Int64
    }

    /// Installations that the user may have left, from the history.
    struct Left: Sendable {
        var installations: [PushID] = []
        /// The last row that was read; nil at the end.
        var last: Int64?
    }

    /// The newest history row; later rows were written after the call began. It waits for a registration of the user that is under way,
    /// which has its rows' numbers already: else the rows would be removed and the registration would stay.
    func historyEnd() throws -> Int64 {
        try session.execute(RegistryLock.query(RegistryLock.keys(app: app.id, users: [user])))
        return try session.execute("SELECT coalesce(max(id), 0) AS id FROM installation_history").only()["id"]
    }

    /// Whether anything is stored under this name: what an erasure looks for, and what an earlier one has left to remove.
    func isKnown() throws -> Bool {
        try session.execute(
            """
            SELECT EXISTS (SELECT FROM installations WHERE app_id = \(app.id) AND owner = \(user))
                OR EXISTS (SELECT FROM installation_history WHERE app_id = \(app.id) AND owner = \(user))
                OR EXISTS (SELECT FROM erasures WHERE app_id = \(app.id) AND owner = \(user))
                OR EXISTS (SELECT FROM quiet_hours WHERE app_id = \(app.id) AND owner = \(user))
                OR EXISTS (SELECT FROM activities WHERE app_id = \(app.id) AND owned_by = activity_owner(\(user), NULL))
                OR EXISTS (SELECT FROM notifications WHERE app_id = \(app.id) AND target_user = \(user))
                OR EXISTS (SELECT FROM targets WHERE app_id = \(app.id) AND owner = \(user)) AS is_known
            """
        ).only()["is_known"]
    }

    /// Empties the user's next installations, fences them and records the remaining work.
    func endInstallations(after cursor: PushID, limit: Int) throws -> (committed: RegistryStore.Committed, next: PushID?) {
        try RegistryStore(session: session).commitPage(of: user, after: cursor, limit: limit, app: app, also: note) { ids in
            .erase(user: user, installations: ids, left: [])
        }
    }

    /// Empties installations whose last owner was the user.
    func endAbandoned(_ installations: [PushID]) throws -> RegistryStore.Committed {
        try session.execute(RegistryLock.query(RegistryLock.keys(app: app.id, installations: installations, users: [user])))
        let left = Set(try abandoned(among: installations))
        return try RegistryStore(session: session).commit(
            .erase(user: user, installations: installations, left: left), of: app,
            reading: RegistryStore.Scope(app: app.id, installations: installations), also: note)
    }

    /// Records the user's time at these installations, which ends now. It begins where the history last names another user.
    private func note(_ batch: RegistryBatch, _ installations: [PushID]) -> [PostgresQuery] {
        guard !installations.isEmpty else { return [] }
        return [
            """
            INSERT INTO erasures (app_id, owner, installation, epochs_from, epochs_below, history_from, history_to, began_at, ended_at)
            SELECT i.app_id, \(user), i.id, coalesce(before.owner_epoch + 1, 0), i.owner_epoch, coalesce(before.id + 1, 0), coalesce((
                SELECT max(h.id) FROM installation_history h WHERE h.app_id = i.app_id AND h.installation = i.id), 0),
                coalesce(before.at, 'epoch'), \(milliseconds: batch.now)
            FROM installations i LEFT JOIN LATERAL (
                SELECT h.id, h.owner_epoch, h.at FROM installation_history h
                WHERE h.app_id = i.app_id AND h.installation = i.id AND h.owner <> \(user) ORDER BY h.id DESC LIMIT 1
            ) AS before ON true
            WHERE i.app_id = \(app.id) AND i.id = ANY (\(installations))
            ON CONFLICT DO NOTHING
            """
        ]
    }

    /// Reads the next rows of the history that name the user. If one ends the user's time at an installation, records that time.
    func noteLeft(after cursor: Int64, upTo end: Int64, limit: Int) throws -> Left {
        let page = try session.execute(
            """
            SELECT id, installation FROM installation_history
            WHERE app_id = \(app.id) AND owner = \(user) AND id > \(cursor) AND id <= \(end) ORDER BY id LIMIT \(limit)
            """)
        guard let last: Int64 = try page.last?["id"] else { return Left() }
        try session.execute(
            """
            INSERT INTO erasures (app_id, owner, installation, epochs_from, epochs_below, history_from, history_to, began_at, ended_at)
            SELECT app_id, owner, installation, epochs_from, epochs_below, history_from, history_to, began_at, ended_at FROM ended_stays
            WHERE app_id = \(app.id) AND owner = \(user) AND history_to > \(cursor) AND history_to <= \(last)
            ON CONFLICT DO NOTHING
            """)
        return Left(installations: try abandoned(among: Set(page.column("installation")).sorted()), last: last)
    }

    /// Those without an owner, whose last owner the history names as the user.
    private func abandoned(among installations: [PushID]) throws -> [PushID] {
        guard !installations.isEmpty else { return [] }
        return try session.execute(
            """
            SELECT i.id FROM installations i CROSS JOIN LATERAL (
                SELECT h.owner FROM installation_history h
                WHERE h.app_id = i.app_id AND h.installation = i.id AND h.owner IS NOT NULL ORDER BY h.id DESC LIMIT 1
            ) AS last
            WHERE i.app_id = \(app.id) AND i.id = ANY (\(installations)) AND i.owner IS NULL AND last.owner = \(user)
            """
        ).column("id")
    }

    func ended(limit: Int) throws -> [Ended] {
        try session.execute(
            """
            SELECT * FROM erasures WHERE app_id = \(app.id) AND owner = \(user) ORDER BY installation, epochs_below LIMIT \(limit)
            """
        ).map { row in
            Ended(
                installation: try row["installation"], epochsFrom: try row["epochs_from"], epochsBelow: try row["epochs_below"],
                historyFrom: try row["history_from"], historyTo: try row["history_to"], beganAt: try row.milliseconds("began_at"),
                at: try row.milliseconds("ended_at"))
        }
    }

    /// Not one that another call has begun anew meanwhile.
    func finish(_ ended: [Ended]) throws {
        try session.execute(
            """
            DELETE FROM erasures e
            USING unnest(\(ended.map(\.installation))::uuid[], \(ended.map(\.epochsBelow))::bigint[]) AS done (installation, epochs_below)
            WHERE e.app_id = \(app.id) AND e.owner = \(user) AND e.installation = done.installation AND e.epochs_below = done.epochs_below
            """)
    }

    /// Fences of the app's erased installations that the broker has not confirmed, as far as recorded.
    /// - Parameter from: No open fence is older: UNIX milliseconds; see ``LowWater``.
    func openFences(from: Int64 = 0) throws -> [Fence] {
        try session.execute(
            """
            WITH open AS MATERIALIZED (
                SELECT * FROM fences
                WHERE (published_at IS NULL) IS TRUE AND free_from >= \(milliseconds: from) AND app_id = \(app.id) ORDER BY free_from
            )
            SELECT f.id, \(app.slug.text) AS app, f.installation, f.epochs_below, f.created_at
            FROM open f JOIN installations i ON i.app_id = f.app_id AND i.id = f.installation
            WHERE i.signed_out_reason = 'erased' ORDER BY f.free_from LIMIT 500
            """
        ).map { row in try Fence(row) }
    }
}
