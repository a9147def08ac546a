import Postgres
import PushModel
import TokenService

/// Jobs between the commit that makes them and the broker's confirm.
extension RunningService {
    static let unpublishedJobs: PostgresQuery = "SELECT count(*) FROM jobs WHERE published_at IS NULL"
    /// Outcomes in the counts of all notifications.
    static let countedOutcomes: PostgresQuery =
        "SELECT coalesce(sum(o.count), 0)::bigint AS count FROM notifications n CROSS JOIN LATERAL unnest(n.outcomes) AS o"

    /// Returns when every job is written down as published.
    func allPublished() async throws {
        _ = try await eventually { try await count(Self.unpublishedJobs) == 0 ? true : nil }
    }

    /// Makes every job free, as if the process that published it had died before it wrote that down.
    func forgetPublishing() async throws {
        try await execute("UPDATE jobs SET published_at = NULL, free_from = now()")
    }
}
