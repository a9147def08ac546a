internal import CPostgres

/// One caller's use of one connection, on the connection's own thread. Every call blocks that thread until the server has answered or the
/// deadline is past, in which case the connection is closed. It must not be used once the body that received it has returned.
package final class PostgresSession {
    enum Transaction {
        /// Every batch commits by itself.
        case none
        /// BEGIN travels with the first statement and saves a round trip.
        case pending(TransactionIsolation)
        case open
        /// COMMIT travelled with the last statements.
        case committed
    }

    let link: PostgresLink
    var transaction = Transaction.none
    /// The first error since the transaction began: later ones only report that it has failed.
    var failure: PostgresError?
    /// The failure was a prepared statement that the server no longer knows or whose plan is outdated; it will be prepared anew.
    private(set) var hadStaleStatement = false
    private var isOpen = true
    private let deadline: Deadline?
    private let operationTimeout: Duration
    /// The moment by which all operations together end that have no deadline.
    private let latestEnd: Deadline?

    init(link: PostgresLink, deadline: Deadline?, latestEnd: Deadline?, operationTimeout: Duration) {
        self.link = link
        self.deadline = deadline
        self.latestEnd = latestEnd
        self.operationTimeout = operationTimeout
    }

    /// Runs one statement. Outside a transaction it commits by itself.
    /// - Throws: The server's refusal as `.sqlState`; `.connectionLost`, `.deadlineExceeded`.
    @discardableResult
    package func execute(_ query: PostgresQuery) throws(PostgresError) -> PostgresRows { try run([query], operation: "execute")[0] }

    /// Runs several statements in one round trip, all or nothing: outside a transaction they are one, which is committed when this
    /// returns. The first error is thrown.
    @discardableResult
    package func pipeline(_ queries: [PostgresQuery]) throws(PostgresError) -> [PostgresRows] { try run(queries, operation: "pipeline") }

    /// Runs one or more commands without parameters, separated by semicolons: migrations, `CREATE DATABASE`, session settings.
    /// Results are dropped.
    package func simple(_ sql: String) throws(PostgresError) {
        try check("simple")
        if case .pending = transaction { _ = try run([], operation: "BEGIN") }
        var report = FailureReport()
        let isSent = link.sendSimple(sql)
        if isSent {
            do throws(AnswerOverdue) {
                while !link.isAbandoned, let result = try link.nextResult(deadline: operationDeadline) {
                    report.note(result)
                    if result.isCopy {
                        report.note("COPY is not offered")
                        link.abandon()
                    }
                }
            } catch {
                link.abandon()
                throw remember(overdue("simple"))
            }
        } else {
            report.note(link.errorMessage)
            link.abandon()
        }
        if !report.isEmpty { throw remember(error(from: report, isSent: isSent, operation: "simple")) }
        if case .open = transaction, link.transactionStatus != PQTRANS_INTRANS {
            link.abandon()
            throw remember(PostgresError(.misuse, operation: "simple", message: "the SQL ended the transaction that it ran in"))
        }
    }

    /// Has every prepared statement planned anew when it is next used.
    func discardPlans() throws(PostgresError) { _ = try command("DISCARD PLANS") }

    /// Whether the connection was still there after its last use.
    package var isConnected: Bool { link.isAlive }

    /// Closes the connection after use instead of giving it back: for sessions that leave settings or locks behind.
    package func discardConnection() { isDiscarded = true }
    private(set) var isDiscarded = false

    func close() { isOpen = false }
}

extension PostgresSession {
    /// One batch; once more if a prepared statement turned out to be stale and no work is lost.
    func run(
        _ queries: [PostgresQuery], operation: String, committing: Bool = false
    ) throws(PostgresError) -> [PostgresRows] {
        try check(operation)
        if case .committed = transaction {
            throw PostgresError(.misuse, operation: operation, message: "the transaction was committed already")
        }
        var blocks: [ParameterBlock] = []
        for query in queries { blocks.append(try ParameterBlock(query.parameters, operation: operation)) }
        do throws(PostgresError) {
            return try attempt(queries, blocks, operation: operation, committing: committing)
        } catch {
            guard hadStaleStatement, case .none = transaction else { throw error }
            return try attempt(queries, blocks, operation: operation)
        }
    }

    private func attempt(
        _ queries: [PostgresQuery], _ blocks: [ParameterBlock], operation: String, committing: Bool = false
    ) throws(PostgresError) -> [PostgresRows] {
        hadStaleStatement = false
        var batch = PostgresBatch(on: link)
        if case .pending(let isolation) = transaction {
            batch.add(command: isolation.begin)
            transaction = .open
        }
        for (query, block) in zip(queries, blocks) { batch.add(query, block) }
        if committing { batch.add(command: Self.commit) }
        let answer = try finish(&batch, operation: operation)
        guard answer.failure.isEmpty, answer.rows.count == queries.count else {
            noteStaleStatements(answer.failure, batch.reused)
            throw remember(error(from: answer.failure, isSent: answer.isSent, operation: operation))
        }
        return answer.rows
    }

    /// Runs one command without parameters, such as COMMIT, and returns its tag.
    func command(_ sql: String) throws(PostgresError) -> String {
        var batch = PostgresBatch(on: link)
        batch.add(command: sql)
        let answer = try finish(&batch, operation: sql)
        guard answer.failure.isEmpty, let tag = answer.tags.first else {
            throw remember(error(from: answer.failure, isSent: answer.isSent, operation: sql))
        }
        return tag
    }

    private func finish(_ batch: inout PostgresBatch, operation: String) throws(PostgresError) -> PostgresBatch.Answer {
        do throws(AnswerOverdue) {
            return try batch.finish(deadline: operationDeadline)
        } catch {
            throw remember(overdue(operation))
        }
    }

    private func noteStaleStatements(_ failure: FailureReport, _ reused: Set<String>) {
        hadStaleStatement = !reused.isEmpty && (failure.state == .invalidStatementName || failure.state == .featureNotSupported)
        if hadStaleStatement { link.prepared.remove(reused) }
    }
}

extension PostgresSession {
    private var operationDeadline: Deadline {
        if let deadline { return deadline }
        let end = Deadline.after(operationTimeout)
        return min(end, latestEnd ?? end)
    }

    private var end: Deadline? { deadline ?? latestEnd }

    var isOverdue: Bool { end?.isPast ?? false }

    /// Waits on this thread, not beyond the deadline.
    func pause(_ duration: Duration) { PostgresLink.pause(min(duration, end?.remaining ?? duration)) }

    func check(_ operation: String) throws(PostgresError) {
        guard isOpen else { throw PostgresError(.closed, operation: operation, message: "the session was used after its end") }
        guard link.isAlive else {
            throw failure
                ?? PostgresError(.connectionLost(outcomeUnknown: false), operation: operation, message: "the connection is closed")
        }
        guard !isOverdue else {
            link.abandon()
            throw remember(
                PostgresError(
                    .deadlineExceeded(outcomeUnknown: false), operation: operation, message: "the deadline passed before it was sent"))
        }
    }

    /// Inside a transaction a lost statement is a rolled-back one, except for COMMIT itself.
    private func isOutcomeUnknown(_ operation: String) -> Bool {
        if case .none = transaction { true } else { operation == Self.commit }
    }

    private func overdue(_ operation: String) -> PostgresError {
        PostgresError(
            .deadlineExceeded(outcomeUnknown: isOutcomeUnknown(operation)), operation: operation,
            message: "no answer in time; the connection was closed")
    }

    private func error(from report: FailureReport, isSent: Bool, operation: String) -> PostgresError {
        guard link.isAlive else {
            return report.orElse(link.farewell).error(
                .connectionLost(outcomeUnknown: isSent && isOutcomeUnknown(operation)), operation: operation)
        }
        guard let state = report.state else { return report.error(.connectionLost(outcomeUnknown: false), operation: operation) }
        // The old primary after a failover: another connection may reach the new one.
        if state == .readOnlyTransaction { link.abandon() }
        return report.error(.sqlState(state), operation: operation)
    }

    /// Keeps a transaction's first error; outside one, the latest.
    func remember(_ error: PostgresError) -> PostgresError {
        if case .none = transaction { failure = error } else { failure = failure ?? error }
        return error
    }
}

extension PostgresSession {
    static let commit = "COMMIT"
    private static let rollback = "ROLLBACK"
    /// How often a transaction that lost a conflict runs again.
    private static let maximumReruns = 5

    /// Runs `body` in a transaction: COMMIT when it returns, ROLLBACK when it throws.
    ///
    /// An error that `body` catches does not save the transaction: PostgreSQL has ended it, and the first error is thrown here.
    /// - Throws: The error of `body`, or `.connectionLost(outcomeUnknown: true)` if COMMIT was sent and its answer did not come.
    @discardableResult
    package func transaction<R>(
        isolation: TransactionIsolation = .readCommitted, _ body: (PostgresSession) throws -> R
    ) throws -> R {
        guard case .none = transaction else {
            throw PostgresError(.misuse, operation: "BEGIN", message: "a transaction is open already")
        }
        transaction = .pending(isolation)
        failure = nil
        defer { transaction = .none }
        let result: R
        do {
            result = try body(self)
        } catch {
            rollBack()
            throw error
        }
        try commitTransaction()
        return result
    }

    /// Runs a transaction as ``transaction(isolation:_:)`` does, and runs `body` again after a serialization failure or deadlock, even if
    /// `body` caught that error; once more also if a prepared statement was stale.
    package func retryingTransaction<R>(
        isolation: TransactionIsolation = .readCommitted, _ body: (PostgresSession) throws -> R
    ) throws -> R {
        var reruns = 0
        var mayPrepareAgain = true
        while true {
            do {
                return try transaction(isolation: isolation, body)
            } catch {
                guard let failure, link.isAlive, !isOverdue else { throw error }
                if hadStaleStatement, mayPrepareAgain {
                    mayPrepareAgain = false
                } else if failure.isConflict, reruns < Self.maximumReruns {
                    reruns += 1
                    // Doubling with full jitter, so that the same transactions do not collide again.
                    pause(.milliseconds(Double.random(in: 0...5 * Double(1 << reruns))))
                } else {
                    throw error
                }
            }
        }
    }

    /// Runs these as the transaction's last statements, with COMMIT in the same round trip. Only inside ``transaction(isolation:_:)``, and
    /// as the last call of its body.
    /// - Throws: As ``pipeline(_:)``; no change is committed then. `.connectionLost(outcomeUnknown: true)` if the answer did not come.
    @discardableResult
    package func commit(with queries: [PostgresQuery]) throws(PostgresError) -> [PostgresRows] {
        if case .none = transaction {
            throw PostgresError(.misuse, operation: Self.commit, message: "there is no transaction to commit")
        }
        // COMMIT of a failed transaction succeeds, as a rollback.
        if let failure { throw failure }
        let rows = try run(queries, operation: Self.commit, committing: true)
        transaction = .committed
        return rows
    }

    private func commitTransaction() throws(PostgresError) {
        switch transaction {
        case .none, .pending, .committed: return
        case .open: break
        }
        if let failure {
            rollBack()
            throw failure
        }
        try check(Self.commit)
        // The server answers COMMIT of a failed transaction with success and the tag ROLLBACK.
        guard try command(Self.commit) == Self.commit else {
            throw failure
                ?? PostgresError(.sqlState(.inFailedTransaction), operation: Self.commit, message: "the transaction had failed before")
        }
    }

    /// Leaves the connection outside a transaction, or abandons it.
    private func rollBack() {
        guard link.isAlive, link.transactionStatus != PQTRANS_IDLE else { return }
        guard !isOverdue else { return link.abandon() }
        do throws(PostgresError) {
            _ = try command(Self.rollback)
        } catch {
            link.abandon()
        }
    }
}

/// PostgreSQL manual 13.2.
package enum TransactionIsolation: Sendable {
    case readCommitted, repeatableRead, serializable

    var begin: String {
        switch self {
        case .readCommitted: "BEGIN ISOLATION LEVEL READ COMMITTED"
        case .repeatableRead: "BEGIN ISOLATION LEVEL REPEATABLE READ"
        case .serializable: "BEGIN ISOLATION LEVEL SERIALIZABLE"
        }
    }
}

/// The latest moment at which an operation ends, with or without an answer of the server.
struct Deadline: Comparable, Sendable {
    let instant: ContinuousClock.Instant

    static func after(_ duration: Duration) -> Deadline { Deadline(instant: .now + duration) }
    static func < (left: Deadline, right: Deadline) -> Bool { left.instant < right.instant }

    var remaining: Duration { max(.zero, instant - .now) }
    var isPast: Bool { instant <= .now }
    /// The rest of the time for `poll`: rounded up, so that it does not spin through the last millisecond; 0 once past.
    var pollMilliseconds: Int32 { Int32(clamping: remaining.milliseconds(rounding: .up)) }
}

extension Duration {
    func milliseconds(rounding rule: FloatingPointRoundingRule) -> Int {
        Int((self / .milliseconds(1)).rounded(rule))
    }
}
