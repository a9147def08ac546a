import Postgres

extension PostgresSession {
    /// Rows of the table and its partitions that were read so far, by whatever plan, the session's own included.
    func rowsRead(of table: String) throws -> Int64 {
        try execute("SELECT pg_stat_force_next_flush()")
        return try execute(
            """
            SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::bigint AS read FROM pg_stat_user_tables
            WHERE relname = \(table) OR relid IN (SELECT relid FROM pg_partition_tree(\(table)::text::regclass))
            """
        ).only()["read"]
    }

    /// The same with entries of indexes that lead to no row.
    func entriesRead(of table: String) throws -> Int64 {
        try execute("SELECT pg_stat_force_next_flush()")
        return try execute(
            """
            SELECT sum(coalesce(t.seq_tup_read, 0)
                + coalesce((SELECT sum(idx_tup_read) FROM pg_stat_user_indexes i WHERE i.relid = t.relid), 0))::bigint AS read
            FROM pg_stat_user_tables t
            WHERE t.relname = \(table) OR t.relid IN (SELECT relid FROM pg_partition_tree(\(table)::text::regclass))
            """
        ).only()["read"]
    }
}
