package import Postgres
import PushModel

/// `PUT` and `PATCH /v1/apps/{app}/installations/{id}`, and many of them at once: ``RegistryBatch`` in one transaction, then the fences.
///
/// Requests that come together share a commit: on a busy service most of a registration's cost is the transaction around it.
package struct InstallationRegistration: Sendable {
    package typealias Result = RegistryChange.Result

    private static let maximumBatch = 256
    /// Of a transaction's locks of names: PostgreSQL's lock table has room for some six thousand (max_locks_per_transaction, 64, times
    /// max_connections, 100), and it is everybody's.
    private static let maximumNames = 1000
    /// Below that, a batch of its own costs more than it saves in waiting.
    private static let worthwhileBatch = 32
    private static let concurrentBatches = 4
    /// How often what one registration supersedes may turn out to be too much.
    private static let maximumPreparations = 5

    private let fences: FencePublisher
    private let transactions: Transactions
    private let supersession: Supersession
    private let queue: CommitQueue<RegistryChange, Committed>

    package init(pool: PostgresPool, fences: FencePublisher, metrics: TokenServiceMetrics) {
        self.fences = fences
        supersession = Supersession(pool: pool, fences: fences)
        let transactions = Transactions(pool: pool, metrics: metrics)
        self.transactions = transactions
        queue = CommitQueue(
            maximumBatch: Self.maximumBatch, worthwhileBatch: Self.worthwhileBatch, concurrency: Self.concurrentBatches,
            maximumWeight: Self.maximumNames, weight: { $0.nameCount }, commit: { await transactions.commit($0, onward: $1) })
    }

    /// - Throws: ``OwnerMismatch`` or ``PreconditionFailed``, which leave everything as it was; `PostgresError`; ``CommitQueueFull``.
    package func register(_ registration: Registration, app: App) async throws -> Result {
        try await submit(RegistryChange(app: app, .registration(registration)))
    }

    /// - Throws: As ``register(_:app:)``; ``NotRegistered``.
    package func change(_ patch: InstallationPatch, app: App) async throws -> Result {
        try await submit(RegistryChange(app: app, .patch(patch)))
    }

    /// Registers many: one answer for each, in their order; one that fails leaves the others alone. Later ones see what earlier ones did.
    package func register(_ registrations: [Registration], app: App) async -> [Swift.Result<Result, any Error>] {
        var results: [Swift.Result<Result, any Error>] = []
        results.reserveCapacity(registrations.count)
        var start = 0
        while start < registrations.count {
            var changes: [RegistryChange] = []
            var names = 0
            for registration in registrations[start...].prefix(Self.maximumBatch) {
                let change = RegistryChange(app: app, .registration(registration))
                guard changes.isEmpty || names + change.nameCount <= Self.maximumNames else { break }
                changes.append(change)
                names += change.nameCount
            }
            let end = start + changes.count
            results += await commit(changes)
            start = end
        }
        return results
    }

    /// Changes that wait for a transaction.
    var waitingCount: Int { queue.waitingCount }

    private func submit(_ change: RegistryChange) async throws -> Result {
        var superseded = FenceState.none
        for _ in 0..<Self.maximumPreparations {
            do {
                let committed = try await queue.submit(change)
                return committed.settled(by: await fences.publish(committed.fences), superseded: superseded)
            } catch is SupersedesTooMany {
                // Not in the queue, where others would wait for it.
                superseded = superseded.combined(with: try await supersession.signOutOthers(for: change))
            }
        }
        throw CommitQueueFull()
    }

    private func commit(_ changes: [RegistryChange]) async -> [Swift.Result<Result, any Error>] {
        var superseded = FenceState.none
        var failures: [Int: any Error] = [:]
        do {
            for index in try await Supersession.excessive(among: changes, in: transactions.pool) {
                do {
                    superseded = superseded.combined(with: try await supersession.signOutOthers(for: changes[index]))
                } catch {
                    failures[index] = error
                }
            }
        } catch {
            return changes.map { _ in .failure(error) }
        }
        let committed = await transactions.commit(changes)
        let fence = await fences.publish(committed.flatMap(\.fences))
        return committed.enumerated().map { [superseded, failures] index, result in
            result.map { $0.settled(by: fence, superseded: superseded) }
                .mapError { $0 is SupersedesTooMany ? failures[index] ?? CommitQueueFull() : $0 }
        }
    }
}

extension InstallationRegistration {
    /// Why a transaction was run once more.
    enum RepeatReason: String, CaseIterable {
        /// PostgreSQL ended it to resolve a deadlock, or because it could not be serialized.
        case conflict
        /// APNs' word on a token came between its read and its write.
        case verdict
    }

    struct Committed: Sendable {
        var result: Result
        /// What the answer waits for: its own fences, and those of the installation that were left open before.
        var fences: [Fence]

        /// - Parameter superseded: Of what was signed out before.
        func settled(by published: FenceState, superseded: FenceState) -> Result {
            var result = result
            if !fences.isEmpty { result.record.fence = result.record.fence.settled(by: published) }
            if superseded == .pending { result.record.fence = .pending }
            return result
        }
    }

    /// One transaction for many changes.
    struct Transactions: Sendable {
        /// Verdicts come one batch after another; none comes between a read and its write for ever.
        private static let maximumReruns = 5

        let pool: PostgresPool
        var metrics: TokenServiceMetrics?

        /// One answer per change, in their order.
        func commit(
            _ changes: [RegistryChange], onward: @escaping CommitQueue<RegistryChange, Committed>.Onward = { _ in nil }
        ) async -> [Swift.Result<Committed, any Error>] {
            await pool.commitSeries(changes, onward: onward) { changes, session in
                session.inParts(changes) { part in try attemptBounded(part, in: session) }
            }
        }

        /// Those that supersede too much are told so, and leave the others alone.
        private func attemptBounded(
            _ changes: [RegistryChange], in session: PostgresSession
        ) throws -> [Swift.Result<Committed, any Error>] {
            let excessive = try Supersession.excessive(among: changes, in: session)
            guard !excessive.isEmpty else { return try attempt(changes, in: session) }
            let rest = changes.indices.filter { !excessive.contains($0) }
            var results = changes.map { _ in Swift.Result<Committed, any Error>.failure(SupersedesTooMany()) }
            guard !rest.isEmpty else { return results }
            for (index, result) in zip(rest, try attempt(rest.map { changes[$0] }, in: session)) { results[index] = result }
            return results
        }

        private func attempt(_ changes: [RegistryChange], in session: PostgresSession) throws -> [Swift.Result<Committed, any Error>] {
            for _ in 0..<Self.maximumReruns {
                do {
                    return try run(changes, in: session)
                } catch is VerdictBetween {
                    metrics?.repeated(.verdict, 1)
                } catch let error as PostgresError where error.code == .sqlState(.uniqueViolation) {
                    // A verdict corrected a token's environment between the read and the write. Now it is read.
                    metrics?.repeated(.verdict, 1)
                }
            }
            return try run(changes, in: session)
        }

        private func run(_ changes: [RegistryChange], in session: PostgresSession) throws -> [Swift.Result<Committed, any Error>] {
            metrics?.commits(changes.count)
            var runs = 0
            defer { if runs > 1 { metrics?.repeated(.conflict, runs - 1) } }
            return try session.retryingTransaction { session in
                runs += 1
                return try Self.apply(changes, in: session)
            }
        }

        private static func apply(_ changes: [RegistryChange], in session: PostgresSession) throws -> [Swift.Result<Committed, any Error>] {
            let store = RegistryBatchStore(session: session)
            let loaded = try store.load(changes)
            let (batch, results) = try store.apply(changes, to: loaded.batch)
            let slugs = Dictionary(changes.map { ($0.app.id, $0.app.slug) }, uniquingKeysWith: { first, _ in first })
            let written = try store.save(batch, slugs: slugs)
            return zip(changes, results).map { change, result in
                result.map { result in
                    let open = loaded.openFences.filter { $0.installation == change.installation.id && $0.app == change.app.slug }
                    return Committed(result: result, fences: open + result.fenced.sorted().compactMap { written[$0] })
                }
            }
        }
    }
}

extension Swift.Result<InstallationRegistration.Committed, any Error> {
    fileprivate var fences: [Fence] {
        switch self {
        case .success(let committed): committed.fences
        case .failure: []
        }
    }
}

extension FenceState {
    /// What is left of this state after its unpublished fences were published with the given result.
    package func settled(by published: FenceState) -> FenceState {
        switch published {
        case .none: self
        case .effective: .effective
        case .pending: .pending
        }
    }
}
