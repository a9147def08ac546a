import Postgres
import PushModel

/// The brake's counters, and the tokens that it puts into quarantine. ``RegistryBatch`` decides about the tokens.
extension OutcomeStore {
    /// Tokens that one transaction puts into quarantine at most, so that it stays short.
    package static let maximumQuarantined = 5000

    /// Only one batch at a time judges the rejections of one app, in any process. Else two batches could each stay below the limit without
    /// the other's count, or one could retire tokens that the other has just found to be rejected unjustly.
    /// - Returns: the apps, in ascending order.
    package func lockBrakes(of entries: [OutcomeBatch.Entry]) throws -> [Int64] {
        guard !entries.isEmpty else { return [] }
        let notifications = Set(entries.map(\.delivery.notification)).sorted()
        let apps: [Int64] = try session.execute(
            """
            SELECT DISTINCT n.app_id FROM unnest(\(notifications)::uuid[]) AS e (id) JOIN notifications n ON n.id = e.id ORDER BY n.app_id
            """
        ).column("app_id")
        try lockBrakes(of: apps)
        return apps
    }

    package func lockBrakes(of apps: [Int64]) throws {
        guard !apps.isEmpty else { return }
        // The key's first half is the word "brak": no other advisory lock of ours has two halves.
        try session.execute(
            """
            SELECT count(pg_advisory_xact_lock(1651662187, (app % 2147483647)::int))
            FROM (SELECT app FROM unnest(\(apps)::bigint[]) AS app ORDER BY app) AS ordered
            """)
    }

    package func brakes(of apps: [Int64]) throws -> [Int64: RejectionBrake] {
        guard !apps.isEmpty else { return [:] }
        var brakes: [Int64: RejectionBrake] = [:]
        let windows = try session.execute(
            """
            SELECT app_id, sum(count)::bigint AS finished,
                (coalesce(sum(count) FILTER (WHERE class = 'token_rejected'), 0))::bigint AS rejected
            FROM outcome_counts
            WHERE app_id = ANY (\(apps)) AND minute > now() - make_interval(mins => \(RejectionBrake.windowMinutes)::int) GROUP BY app_id
            """)
        for row in windows { brakes[try row["app_id"]] = RejectionBrake(finished: try row["finished"], rejected: try row["rejected"]) }
        return brakes
    }

    func slugs(of apps: [Int64]) throws -> [Int64: AppSlug] {
        guard !apps.isEmpty else { return [:] }
        let rows = try session.execute("SELECT id, slug FROM apps WHERE id = ANY (\(apps))")
        return Dictionary(uniqueKeysWithValues: try rows.map { row in (try row["id"] as Int64, try row["slug"] as AppSlug) })
    }

    /// Tokens that were retired as rejected in the brake's window and are not in quarantine yet; at most ``maximumQuarantined``.
    package func retiredInWindow(of apps: [Int64]) throws -> [Int64] {
        guard !apps.isEmpty else { return [] }
        return try session.execute(
            """
            SELECT id FROM tokens
            WHERE app_id = ANY (\(apps)) AND retired_reason = 'rejected'
                AND retired_at > now() - make_interval(mins => \(RejectionBrake.windowMinutes)::int) AND quarantined_at IS NULL
            ORDER BY app_id, retired_at LIMIT \(Self.maximumQuarantined)
            """
        ).column("id")
    }
}
