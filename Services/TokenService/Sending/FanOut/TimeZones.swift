package import Postgres

/// The table `time_zones`: the zones that the database's server knows. A restored dump, a promoted standby or an update of tzdata may know
/// others, and a statement that converts to a zone that the server does not know fails.
package enum TimeZones {
    /// - Returns: how many zones were added or removed.
    @discardableResult
    package static func refresh(in session: PostgresSession) throws -> Int {
        let row = try session.execute(
            """
            WITH known AS MATERIALIZED (SELECT name FROM pg_timezone_names), gone AS (
                DELETE FROM time_zones z WHERE NOT EXISTS (SELECT FROM known k WHERE k.name = z.name) RETURNING name
            ), added AS (
                INSERT INTO time_zones SELECT name FROM known ON CONFLICT DO NOTHING RETURNING name
            )
            SELECT (SELECT count(*) FROM gone) + (SELECT count(*) FROM added) AS changed
            """
        ).only()
        let changed: Int64 = try row["changed"]
        return Int(changed)
    }
}
