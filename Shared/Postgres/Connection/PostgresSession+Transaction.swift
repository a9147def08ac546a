internal import CPostgres

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

    /// As ``transaction(isolation:_:)``, and runs `body` again after a serialization failure or deadlock, even if `body` caught that error;
    /// once more also if a prepared statement was stale.
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
