internal import CPostgres

/// Collects the errors of all results of an operation, and keeps the first: the last one often only says that the connection is gone.
struct FailureReport {
    private(set) var state: SQLState?
    private(set) var constraint: String?
    private var message: String?

    init() {}

    /// A notice that announces the end of the connection (class 57: operator intervention); nil for any other.
    init?(farewell notice: OpaquePointer?) {
        guard let code = PQresultErrorField(notice, PostgresErrorField.sqlState).map({ SQLState(String(cString: $0)) }),
            [.adminShutdown, .crashShutdown, .idleSessionTimeout].contains(code)
        else { return nil }
        state = code
        message = PQresultErrorField(notice, PostgresErrorField.primaryMessage).map { String(cString: $0).onOneLine }
    }

    var isEmpty: Bool { message == nil }

    /// Records a result that is an error; others are passed over.
    mutating func note(_ result: PostgresResult) {
        guard result.status == PGRES_FATAL_ERROR || result.status == PGRES_BAD_RESPONSE else { return }
        let code = result.errorField(PostgresErrorField.sqlState).map(SQLState.init)
        guard state == nil, message == nil || code != nil else { return }
        state = code
        constraint = result.errorField(PostgresErrorField.constraintName)
        message = code.map { Self.words(result, $0) } ?? result.errorMessage.onOneLine
    }

    mutating func note(_ words: String) {
        if message == nil { message = words.onOneLine }
    }

    /// If the results hold no code, `farewell` may.
    func orElse(_ farewell: FailureReport?) -> FailureReport { state == nil ? farewell ?? self : self }

    func error(_ code: PostgresError.Code, operation: String) -> PostgresError {
        PostgresError(code, operation: operation, message: message ?? "no reason given", sqlState: state, constraint: constraint)
    }

    /// The server's primary message. Class 22 (data exception) quotes the value behind a colon: that part goes.
    private static func words(_ result: PostgresResult, _ state: SQLState) -> String {
        let words = result.errorField(PostgresErrorField.primaryMessage) ?? ""
        guard state.classCode == "22", let quotation = words.firstRange(of: ": \"") else { return words.onOneLine }
        return String(words[..<quotation.lowerBound]).onOneLine
    }
}

/// `PG_DIAG_…` of postgres_ext.h, which are character literals there.
private enum PostgresErrorField {
    static let sqlState = Int32(UInt8(ascii: "C"))
    static let primaryMessage = Int32(UInt8(ascii: "M"))
    static let constraintName = Int32(UInt8(ascii: "n"))
}
