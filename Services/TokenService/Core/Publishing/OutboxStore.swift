package import Postgres
package import PushModel

/// The SQL of waiting rows beside jobs: fan-outs with `free_from`, and fences without `published_at`; and of the number of all waiting
/// rows. Rows are locked in ascending order of their keys, as everywhere.
package struct OutboxStore {
    private let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    // MARK: Fan-outs

    /// Takes over fan-outs of a lane on which no process has a lease.
    package func claimFanOuts(_ count: Int, of lane: Lane, leaseSeconds: Double) throws -> [PushID] {
        guard count > 0 else { return [] }
        return try session.execute(
            """
            WITH found AS (
                SELECT notification FROM fan_outs WHERE lane = \(lane) AND free_from <= now()
                ORDER BY free_from LIMIT \(count) FOR NO KEY UPDATE SKIP LOCKED
            )
            UPDATE fan_outs o SET free_from = now() + make_interval(secs => \(leaseSeconds)) FROM found f
            WHERE o.notification = f.notification RETURNING o.notification
            """
        ).column("notification")
    }

    /// Any process may go on with these fan-outs, a moment later.
    package func release(_ ids: [PushID]) throws {
        guard !ids.isEmpty else { return }
        try session.execute(
            """
            WITH locked AS (
                SELECT f.notification FROM unnest(\(ids)::uuid[]) AS e (id) JOIN fan_outs f ON f.notification = e.id
                WHERE f.free_from IS NOT NULL ORDER BY f.notification FOR NO KEY UPDATE OF f
            )
            UPDATE fan_outs f SET free_from = now() + interval '1 second' FROM locked l WHERE f.notification = l.notification
            """)
    }

    /// Of claimed fan-outs, those that supersede older notifications: by a key, or as the newest state of a Live Activity or a channel.
    package func superseding(_ ids: [PushID]) throws -> Set<PushID> {
        let found: [PushID] = try session.execute(
            """
            SELECT n.id FROM unnest(\(ids)::uuid[]) AS e (id) JOIN notifications n ON n.id = e.id
            WHERE n.supersede_key IS NOT NULL OR n.purpose LIKE 'activity:%' OR n.purpose LIKE 'channel:%'
            """
        ).column("id")
        return Set(found)
    }

    /// The moment at which the oldest unfinished fan-out became due, in UNIX milliseconds. One that is under way is free within
    /// `leaseSeconds`.
    package func oldestFanOut(leaseSeconds: Double) throws -> Int64? {
        try session.execute(
            """
            SELECT min(due) AS oldest FROM (
                SELECT due_at AS due FROM fan_outs
                WHERE lane IN ('now', 'soon', 'bulk') AND free_from <= now() + make_interval(secs => \(leaseSeconds)) AND due_at <= now()
                LIMIT 1000
            ) AS unfinished
            """
        ).only().milliseconds("oldest")
    }

    // MARK: Fences

    /// Fences that are left over: older than any caller waits. In the order of `fences_open`; any order would do.
    package func leftOverFences(limit: Int) throws -> [Fence] {
        try session.execute(
            """
            SELECT id, app, installation, epochs_below, created_at FROM open_fences
            WHERE created_at < now() - interval '2 seconds' ORDER BY app_id, installation LIMIT \(limit)
            """
        ).map { row in
            Fence(
                id: try row["id"], app: try row["app"], installation: try row["installation"], epochsBelow: try row["epochs_below"],
                at: try row.milliseconds("created_at"))
        }
    }

    package func markPublished(fences: [Int64]) throws {
        guard !fences.isEmpty else { return }
        // IS TRUE keeps the planner from the index on open fences, each of which would be compared with all of the ids.
        try session.execute("UPDATE fences SET published_at = now() WHERE id = ANY (\(fences)) AND (published_at IS NULL) IS TRUE")
    }

    // MARK: Backlog

    /// How many jobs and fan-outs wait now; of each kind counted no further than `limit`. One that is due later does not wait.
    /// - Parameter leaseSeconds: The lease of a process that publishes a job or goes on with a fan-out.
    package func backlog(limit: Int, leaseSeconds: Double) throws -> Int {
        try session.execute(
            """
            SELECT (SELECT count(*) FROM (
                    SELECT FROM fan_outs
                    WHERE lane IN ('now', 'soon', 'bulk') AND free_from <= now() + make_interval(secs => \(leaseSeconds))
                        AND due_at <= now() LIMIT \(limit)) AS waiting)
                + (SELECT count(*) FROM (
                    SELECT FROM jobs
                    WHERE published_at IS NULL AND lane IN ('now', 'soon', 'bulk')
                        AND free_from <= now() + make_interval(secs => \(leaseSeconds)) AND due_at <= now() + interval '1 second'
                    LIMIT \(limit)) AS waiting)
                AS waiting
            """
        ).only()["waiting"]
    }
}
