package import Postgres
package import PushModel

/// Installations that nobody has heard of for as long as their app says: flagged, and where the app wants it deregistered.
///
/// Found by a walk over the primary key: an index on the last registration would make every refresh dearer. Whether one is stale is
/// decided anew under its row's lock, so one that registered meanwhile is left alone.
package struct StaleInstallations {
    /// Rows that one step looks at.
    package static let page: Int64 = 1000
    /// Installations that one step removes.
    package static let removalBatch = 100

    private let session: PostgresSession
    private let app: App

    package init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    package struct Page: Sendable {
        /// Nil at the end of the walk.
        package var last: PushID?
        package var flagged = 0
        /// Flagged and not removed, though the app wants it.
        package var removable: [PushID] = []
    }

    package struct Removal: Sendable {
        package var removed = 0
        package var fences: [Fence] = []
    }

    /// Looks at the installations after that one and flags those that are stale.
    package func flag(after cursor: PushID) throws -> Page {
        guard let days = app.staleAfterDays else { return Page() }
        let rows = try session.execute(Self.candidates, [.int64(app.id), .id(cursor), .int64(Self.page), .int32(Int32(days))])
        guard let last = try rows.map({ row in try row.id(0) }).last else { return Page() }
        let stale = try rows.filter { try $0.bool(1) }.map { row in try row.id(0) }
        var page = Page(last: last)
        guard !stale.isEmpty else { return page }
        let now = try InstallationStore(session: session, app: app).clock()
        let flagged = try session.execute(Self.flag, [.int64(app.id), .ids(stale), .timestamp(milliseconds: now)])
        try tell(.stale, of: flagged, at: now)
        page.flagged = flagged.count
        if app.removesStale { page.removable = stale }
        return page
    }

    /// Deregisters those of them that are flagged and still stale: tokens retired, epoch ended, fenced.
    package func remove(_ installations: [PushID]) throws -> Removal {
        let store = InstallationStore(session: session, app: app)
        _ = try store.lockInstallations(installations)
        let now = try store.clock()
        let removed = try session.execute(Self.remove, [.int64(app.id), .ids(installations), .timestamp(milliseconds: now)])
        let ids = try removed.map { row in try row.id(0) }
        guard !ids.isEmpty else { return Removal() }
        try session.execute(Self.retireTokens, [.int64(app.id), .ids(ids), .timestamp(milliseconds: now)])
        try tell(.deregistered, of: removed, reason: "stale", at: now)
        let fenced = try store.fence(ids, at: now)
        return Removal(removed: ids.count, fences: try store.unpublishedFences(of: fenced))
    }

    /// Columns: installation, owner, epoch.
    private func tell(_ event: HistoryEntry.Event, of rows: PostgresRows, reason: String? = nil, at now: Int64) throws {
        let entries = try rows.map { row in
            var entry = HistoryEntry(app: app.id, installation: try row.id(0), event: event, at: now)
            entry.owner = try row.optionalText(1)
            entry.ownerEpoch = try row.int64(2)
            entry.reason = reason
            return entry
        }
        try HistoryStore(session: session).append(entries)
    }

    /// Of one table: joined with the app, the planner walks all of its installations where the app says nothing of staleness.
    private static let candidates: PostgresStatement = """
        SELECT id, deregistered_at IS NULL AND registered_at < now() - make_interval(days => $4)
        FROM installations WHERE app_id = $1 AND id > $2 ORDER BY id LIMIT $3
        """
    /// Whoever is being registered at this moment is not waited for.
    private static let flag: PostgresStatement = """
        WITH stale AS (
            SELECT i.app_id, i.id FROM installations i JOIN apps a ON a.id = i.app_id
            WHERE i.app_id = $1 AND i.id = ANY ($2::uuid[]) AND i.stale_since IS NULL AND i.deregistered_at IS NULL
                AND i.registered_at < now() - make_interval(days => a.stale_after_days)
            ORDER BY i.id FOR NO KEY UPDATE OF i SKIP LOCKED
        )
        UPDATE installations i SET stale_since = $3 FROM stale WHERE i.app_id = stale.app_id AND i.id = stale.id
        RETURNING i.id, i.owner, i.owner_epoch
        """
    /// The rows are locked; the old owner is what the history names.
    private static let remove: PostgresStatement = """
        WITH stale AS (
            SELECT i.app_id, i.id, i.owner, i.owner_epoch FROM installations i JOIN apps a ON a.id = i.app_id
            WHERE i.app_id = $1 AND i.id = ANY ($2::uuid[]) AND i.stale_since IS NOT NULL AND i.deregistered_at IS NULL
                AND a.removes_stale AND i.registered_at < now() - make_interval(days => a.stale_after_days)
        )
        UPDATE installations i SET owner = NULL, signed_out_reason = 'stale', deregistered_at = $3, throttled_until = NULL,
            locale = NULL, time_zone = NULL, app_version = NULL, os_version = NULL, device_model = NULL, tags = '{}'
        FROM stale s WHERE i.app_id = s.app_id AND i.id = s.id RETURNING i.id, s.owner, s.owner_epoch
        """
    private static let retireTokens: PostgresStatement = """
        WITH locked AS (
            SELECT id FROM tokens WHERE app_id = $1 AND state = 'active'
                AND ordinal = ANY (ARRAY(SELECT ordinal FROM installations WHERE app_id = $1 AND id = ANY ($2::uuid[])))
            ORDER BY id FOR NO KEY UPDATE
        )
        UPDATE tokens t SET state = 'retired', retired_at = $3, retired_reason = 'stale' FROM locked WHERE t.id = locked.id
        """
}
