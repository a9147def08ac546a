import Postgres

extension RunningService {
    /// All rows of all tables that refused requests must leave as they are: not leases, the feeds of events, the relay's marks and the last
    /// use of a key, which change by themselves.
    /// - Parameter pattern: Only of the rows, as JSON, that match this regular expression.
    func fingerprint(naming pattern: String = "") async throws -> [String: String] {
        try await ofEachTable("md5(string_agg(row, chr(10) ORDER BY row))", naming: pattern)
    }

    func changed(since before: [String: String], naming pattern: String = "") async throws -> [String] {
        try await fingerprint(naming: pattern).filter { before[$0] != $1 }.keys.sorted()
    }

    /// How many rows each of these tables has.
    func sizes() async throws -> [String: Int] {
        try await ofEachTable("count(*)", naming: "").compactMapValues { Int($0) }
    }

    /// By how many rows each table has grown; without those that have not.
    func growth(since before: [String: Int]) async throws -> [String: Int] {
        try await sizes().merging(before) { $0 - $1 }.filter { $1 != 0 }
    }

    private func ofEachTable(_ aggregate: String, naming pattern: String) async throws -> [String: String] {
        try await pool.session { session in
            let rows = try session.execute(
                """
                SELECT c.relname::text AS name,
                    coalesce((xpath('//value/text()', query_to_xml(format('SELECT (%s)::text AS value FROM (SELECT (to_jsonb(t) - \
                ''last_used_at'')::text AS row FROM %I AS t) AS rows WHERE row ~ %L', \(aggregate)::text, c.relname, \(pattern)::text), \
                true, false, '')))[1]::text, '')
                        AS value
                FROM pg_class c
                WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
                    AND c.relname NOT IN ('leases', 'event_feeds', 'low_water')
                """)
            return Dictionary(uniqueKeysWithValues: try rows.map { (try $0["name"] as String, try $0["value"] as String) })
        }
    }
}
