package import Postgres

extension PostgresSession {
    /// The one `count(*)` that a query answers with.
    package func count(_ query: PostgresQuery) throws(PostgresError) -> Int64 { try execute(query).only()["count"] }
}
