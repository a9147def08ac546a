package import Postgres
import PushModel
import TokenServiceKit

/// The SQL of fences that are to be published. It works for every app, and takes no id from a request.
package struct FenceStore {
    let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    /// - Parameter from: UNIX milliseconds; see ``LowWater``.
    /// - Returns: Since when the oldest fence has been free that is left over, and the moment of ``LowWater/clock`` before the search.
    package func oldestLeftOver(from: Int64 = 0) throws -> (now: Int64, oldest: Int64?) {
        let answers = try session.pipeline([
            LowWater<AnyApp>.clock,
            """
            SELECT free_from FROM fences
            WHERE (published_at IS NULL) IS TRUE AND free_from >= \(milliseconds: from) AND free_from <= now() ORDER BY free_from LIMIT 1
            """,
        ])
        return (try answers[0].only().milliseconds("now"), try answers[1].first?.milliseconds("free_from"))
    }

    /// Takes over fences that are left over and on which no process has a lease.
    package func claim(limit: Int, from: Int64 = 0, leaseSeconds: Double) throws -> [Fence] {
        try session.execute(
            """
            WITH free AS (
                SELECT id FROM fences
                WHERE (published_at IS NULL) IS TRUE AND free_from >= \(milliseconds: from) AND free_from <= now()
                ORDER BY free_from LIMIT \(limit) FOR NO KEY UPDATE SKIP LOCKED
            )
            UPDATE fences f SET free_from = now() + make_interval(secs => \(leaseSeconds)) FROM free, apps a
            WHERE f.id = free.id AND a.id = f.app_id
            RETURNING f.id, a.slug AS app, f.installation, f.epochs_below, f.created_at
            """
        ).map { row in
            Fence(
                id: try row["id"], app: try row["app"], installation: try row["installation"], epochsBelow: try row["epochs_below"],
                at: try row.milliseconds("created_at"))
        }
    }

    /// Any process may publish these fences, a moment later.
    package func release(_ fences: [Int64]) throws {
        guard !fences.isEmpty else { return }
        try session.execute(
            """
            UPDATE fences SET free_from = now() + interval '1 second'
            WHERE id = ANY (\(fences)) AND coalesce(published_at, 'infinity') = 'infinity'
            """)
    }

    package func markPublished(_ fences: [Int64]) throws {
        guard !fences.isEmpty else { return }
        // Not by an index on open fences, each of which would be compared with all of the ids.
        try session.execute(
            "UPDATE fences SET published_at = now() WHERE id = ANY (\(fences)) AND coalesce(published_at, 'infinity') = 'infinity'")
    }
}
