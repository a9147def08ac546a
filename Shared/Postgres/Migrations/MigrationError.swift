/// Why the schema was not brought up to date. No change of the failed migration remains.
package struct MigrationError: Error, Equatable, Sendable, CustomStringConvertible {
    package enum Code: Equatable, Sendable {
        /// The directory or a file in it cannot be used.
        case unusableFiles
        /// The database was migrated by a newer program than this one.
        case databaseIsNewer(database: Int, program: Int)
        /// An applied migration's file has other content than when it was applied.
        case edited(version: Int)
        /// A later migration is applied, this one is not.
        case outOfOrder(version: Int)
        /// Another instance held the lock for too long.
        case lockTimedOut
        case failed(version: Int?, PostgresError)
    }

    package let code: Code
    package let message: String

    package var description: String { message }
}
