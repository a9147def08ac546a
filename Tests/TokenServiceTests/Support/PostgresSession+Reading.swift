import Postgres
import Testing

extension PostgresSession {
    /// Ends every other session and waits for its end. A session reports its reads up to 10 s later, or when it ends
    /// (PostgreSQL, "The Cumulative Statistics System"): a count that begins afterwards has none of them.
    func endOthers() throws {
        let hasEnded: Bool = try execute(
            """
            SELECT coalesce(bool_and(pg_terminate_backend(pid, 10000)), true) AS has_ended FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()
            """
        ).only()["has_ended"]
        try #require(hasEnded)
    }

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

    /// Pages of a table, its partitions and their indexes that the open transaction has visited so far.
    func pagesVisitedHere(of table: String) throws -> Int64 {
        try execute(
            """
            WITH tables AS (SELECT \(table)::text::regclass AS oid UNION SELECT relid FROM pg_partition_tree(\(table)::text::regclass))
            SELECT coalesce(sum(pg_stat_get_xact_blocks_fetched(r.oid)), 0)::bigint AS visited FROM (
                SELECT oid FROM tables UNION SELECT indexrelid FROM pg_index WHERE indrelid IN (SELECT oid FROM tables)
            ) AS r
            """
        ).only()["visited"]
    }

    /// Entries of an index and its partitions that the open transaction has read so far.
    func entriesReadHere(of index: String) throws -> Int64 {
        try execute(
            """
            SELECT coalesce(sum(pg_stat_get_xact_tuples_returned(c.oid)), 0)::bigint AS read FROM pg_class c
            WHERE c.oid = \(index)::text::regclass OR c.oid IN (SELECT relid FROM pg_partition_tree(\(index)::text::regclass))
            """
        ).only()["read"]
    }
}
