import Postgres

extension PostgresSession {
    /// Rows of the table that were read so far, by whatever plan, the session's own included.
    func rowsRead(of table: String) throws -> Int64 {
        try execute("SELECT pg_stat_force_next_flush()")
        return try execute("SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables WHERE relname = $1", [.text(table)])
            .only().int64(0)
    }
}
