/// PostgreSQL's five-character error code (PostgreSQL manual, appendix A). The first two characters are its class.
package struct SQLState: Hashable, Sendable, CustomStringConvertible {
    package let code: String

    package init(_ code: String) { self.code = code }

    package var description: String { code }
    /// For example `23` for every integrity constraint violation.
    package var classCode: String { String(code.prefix(2)) }

    package static let featureNotSupported = SQLState("0A000")
    /// Also a time zone that the server does not know.
    package static let invalidParameterValue = SQLState("22023")
    package static let invalidTextRepresentation = SQLState("22P02")
    package static let notNullViolation = SQLState("23502")
    package static let foreignKeyViolation = SQLState("23503")
    package static let uniqueViolation = SQLState("23505")
    package static let checkViolation = SQLState("23514")
    package static let exclusionViolation = SQLState("23P01")
    package static let readOnlyTransaction = SQLState("25006")
    package static let inFailedTransaction = SQLState("25P02")
    package static let idleInTransactionTimeout = SQLState("25P03")
    package static let invalidStatementName = SQLState("26000")
    package static let invalidCatalogName = SQLState("3D000")
    package static let serializationFailure = SQLState("40001")
    package static let deadlockDetected = SQLState("40P01")
    package static let insufficientPrivilege = SQLState("42501")
    package static let syntaxError = SQLState("42601")
    package static let undefinedTable = SQLState("42P01")
    package static let duplicatePreparedStatement = SQLState("42P05")
    /// Also where the lock table is full (max_locks_per_transaction).
    package static let outOfMemory = SQLState("53200")
    package static let tooManyConnections = SQLState("53300")
    package static let objectInUse = SQLState("55006")
    package static let lockNotAvailable = SQLState("55P03")
    /// Statement timeout, or a cancel request.
    package static let queryCanceled = SQLState("57014")
    package static let adminShutdown = SQLState("57P01")
    package static let crashShutdown = SQLState("57P02")
    package static let cannotConnectNow = SQLState("57P03")
    package static let idleSessionTimeout = SQLState("57P05")
    package static let raiseException = SQLState("P0001")
}
