/// PostgreSQL's five-character error code (PostgreSQL manual, appendix A). The first two characters are its class.
package struct SQLState: Hashable, Sendable, CustomStringConvertible {
    package let code: String

    package init(_ code: String) { self.code = code }

    package var description: String { code }
    /// The class of the code, for example `23` for every integrity constraint violation.
    package var classCode: String { String(code.prefix(2)) }

    package static let featureNotSupported = SQLState("0A000")
    /// A value that is not valid, such as a time zone that the server does not know.
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
    /// The memory is used up, or the lock table is full (max_locks_per_transaction).
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

/// Why a database operation failed. Callers switch on `code`; people read `description`.
///
/// Neither shows a password, a parameter, SQL text, or the server's DETAIL, which quotes rows.
package struct PostgresError: Error, Equatable, Sendable {
    package enum Code: Equatable, Sendable {
        /// The connection string, the password file or another setting cannot be used.
        case configuration
        /// No server could be reached, or none accepted us.
        case connectionFailed
        /// The connection died under an operation. `outcomeUnknown`: the server may or may not have committed.
        case connectionLost(outcomeUnknown: Bool)
        /// The server refused a statement; the connection lives on.
        case sqlState(SQLState)
        /// No answer in time; the connection was closed. `outcomeUnknown` as above.
        case deadlineExceeded(outcomeUnknown: Bool)
        /// Every connection stayed busy for as long as a caller may wait.
        case poolExhausted
        /// A value that the protocol cannot carry (a time outside PostgreSQL's range, more than 2 GiB).
        case invalidParameter
        /// The answer has another shape or type than the caller wants.
        case decoding
        /// The pool or session was closed before.
        case closed
        /// The caller used the library in a way that it does not offer, such as a transaction inside a transaction.
        case misuse
    }

    package var code: Code
    /// The operation: `execute`, `COMMIT`, `connect`, …
    package var operation: String
    /// The server's or libpq's own text, or ours.
    package var message: String
    /// The first SQLSTATE that came, also if the connection died of it (57P01); nil if none came.
    package var sqlState: SQLState?
    /// The violated constraint's name (class 23).
    package var constraint: String?

    package init(_ code: Code, operation: String, message: String, sqlState: SQLState? = nil, constraint: String? = nil) {
        self.code = code
        self.operation = operation
        self.message = message
        self.sqlState = sqlState
        self.constraint = constraint
        if case .sqlState(let state) = code { self.sqlState = state }
    }

    /// No change was committed, and the very same call may succeed if it is made again.
    package var isRetriable: Bool {
        switch code {
        case .connectionFailed, .poolExhausted, .connectionLost(outcomeUnknown: false), .deadlineExceeded(outcomeUnknown: false): true
        case .sqlState(let state): isConflict || Self.isTemporary(state)
        default: false
        }
    }

    /// A serialization failure or deadlock: the whole transaction has to run again (PostgreSQL: Serialization Failure Handling).
    package var isConflict: Bool { code == .sqlState(.serializationFailure) || code == .sqlState(.deadlockDetected) }

    /// The database cannot serve now: an HTTP service answers 503.
    package var isUnavailable: Bool {
        switch code {
        case .connectionFailed, .connectionLost, .deadlineExceeded, .poolExhausted, .closed: true
        case .sqlState(let state): isConflict || Self.isTemporary(state)
        default: false
        }
    }

    /// The values are at fault: the same ones are refused again, however often. Data exceptions (class 22), constraints (23), cardinality
    /// (21), program limits (54), check options (44) and errors that a trigger raises (P0).
    package var isOfValues: Bool {
        switch code {
        case .invalidParameter: true
        case .sqlState(let state): ["21", "22", "23", "44", "54", "P0"].contains(state.classCode)
        default: false
        }
    }

    /// A statement that the schema does not fit (class 42), an internal error or damaged data (XX), an answer that cannot be decoded: of
    /// one row, or of every one.
    package var isOfProgram: Bool {
        switch code {
        case .decoding: true
        case .sqlState(let state): ["42", "XX"].contains(state.classCode)
        default: false
        }
    }

    /// It took too long, collided too often or needed too many locks: fewer rows at once may succeed.
    package var isOfSize: Bool {
        switch code {
        case .sqlState(let state): isConflict || [.queryCanceled, .lockNotAvailable, .outOfMemory].contains(state)
        default: false
        }
    }

    /// The server may or may not have committed: only a keyed, idempotent call may be repeated.
    package var isOutcomeUnknown: Bool {
        code == .connectionLost(outcomeUnknown: true) || code == .deadlineExceeded(outcomeUnknown: true)
    }

    /// Lock and statement timeouts, a server that became read-only, resources, shutdown, I/O (PostgreSQL: Appendix A, Error Codes).
    private static func isTemporary(_ state: SQLState) -> Bool {
        switch state {
        case .lockNotAvailable, .queryCanceled, .readOnlyTransaction, .adminShutdown, .crashShutdown, .cannotConnectNow: true
        default: ["08", "53", "58"].contains(state.classCode)
        }
    }
}

extension PostgresError: CustomStringConvertible {
    package var description: String {
        var text = "\(operation): \(message)"
        if let sqlState { text += " (SQLSTATE \(sqlState))" }
        if isOutcomeUnknown { text += "; whether it was committed is unknown" }
        return text
    }
}
