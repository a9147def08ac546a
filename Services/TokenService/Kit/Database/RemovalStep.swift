package import Postgres

/// One step of a removal, which repeats until a step finds fewer rows than it may remove.
///
/// The number of removed rows does not say whether rows are left. A step finds rows that another transaction removes before it does, and it
/// may find one row twice.
package struct RemovalStep: Equatable, Sendable {
    package var removed: Int
    /// No row is left that was there when the step began.
    package var isDone: Bool

    /// - Parameters:
    ///   - row: With the numbers `found` and `removed`.
    ///   - limit: The most rows that the step may find.
    package init(_ row: PostgresRow, limit: Int) throws {
        let found: Int = try row["found"]
        removed = try row["removed"]
        isDone = found < limit
    }
}
