import Postgres

extension PostgresSession {
    /// Rows of the table that were read so far, by whatever plan, the session's own included.
    func rowsRead(of table: String) throws -> Int64 {
        try execute("SELECT pg_stat_force_next_flush()")
        return try execute("SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables WHERE relname = $1", [.text(table)])
            .only().int64(0)
    }

    /// The same with entries of indexes that lead to no row.
    func entriesRead(of table: String) throws -> Int64 {
        try execute("SELECT pg_stat_force_next_flush()")
        return try execute(
            """
            SELECT seq_tup_read + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = $1)::bigint
            FROM pg_stat_user_tables WHERE relname = $1
            """, [.text(table)]
        ).only().int64(0)
    }
}
