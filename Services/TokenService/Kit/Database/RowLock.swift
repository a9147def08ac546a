package import Postgres

/// Rows that a transaction locks before it decides about them, or by them.
///
/// A statement that waits for a row goes on with the newest version of that row. Every other row it sees as it was when the statement began
/// (PostgreSQL, "Read Committed Isolation Level"). So a statement that waits, and decides by rows of other tables, decides by the past: it
/// does not see what the transaction that it waited for has written. A lock in a statement before waits in its place, and the decision is a
/// new statement, which sees everything.
package struct RowLock: Sendable {
    private let selects: [PostgresQuery]

    /// - Parameter selects: `SELECT … ORDER BY … FOR …` each. They run in this order.
    package init(_ selects: PostgresQuery...) { self.selects = selects }

    /// The lock, then the decisions, for a pipeline.
    package func then(_ decisions: PostgresQuery...) -> [PostgresQuery] { selects + decisions }
}

extension PostgresSession {
    /// Locks, then decides, in one round trip.
    /// - Returns: the rows of the decision.
    @discardableResult
    package func execute(_ decision: PostgresQuery, under lock: RowLock) throws(PostgresError) -> PostgresRows {
        let answers = try pipeline(lock.then(decision))
        return answers[answers.count - 1]
    }
}
