import Postgres

extension RunningService {
    /// All rows of all tables that refused requests must leave as they are: not leases, the feeds of events, the relay's marks and the last use of
    /// a key, which change by themselves.
    func fingerprint() async throws -> [String: String] {
        try await pool.session { session in
            let rows = try session.execute(
                """
                SELECT c.relname::text AS name,
                    query_to_xml(format('SELECT md5(string_agg(row, chr(10) ORDER BY row)) FROM (SELECT (to_jsonb(t) - ''last_used_at'')::text AS row FROM %I AS t) AS rows', c.relname), true, false, '')::text
                        AS rows
                FROM pg_class c
                WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relname NOT IN ('leases', 'event_feeds', 'low_water')
                """)
            return Dictionary(uniqueKeysWithValues: try rows.map { (try $0["name"] as String, try $0["rows"] as String) })
        }
    }

    func changed(since before: [String: String]) async throws -> [String] {
        try await fingerprint().filter { before[$0] != $1 }.keys.sorted()
    }
}
