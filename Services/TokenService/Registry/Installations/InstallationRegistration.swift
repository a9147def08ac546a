import Metrics
package import Observability
package import Postgres
import PushModel
package import TokenServiceApps
import TokenServiceKit

/// `PUT` and `PATCH /v1/apps/{app}/installations/{id}`, and many of them at once: ``RegistryBatch`` in one transaction, then the fences.
///
/// Requests that come together share a commit: on a busy service most of a registration's cost is the transaction around it.
package struct InstallationRegistration: Sendable {
    package struct Result: Sendable {
        package var record: InstallationRecord
        /// It was not registered before.
        package var isNew: Bool
        /// Whether an item of a list states the backend's tags.
        package var hasStatedTags = false
        package var warnings: [RegistrationWarning] = []
    }

    private static let maximumBatch = 256
    /// The most names that one transaction locks: PostgreSQL's lock table has room for some six thousand (max_locks_per_transaction, 64,
    /// times max_connections, 100), and all transactions share it.
    private static let maximumNames = 1000
    /// The size below which a batch of its own costs more than it saves in waiting.
    private static let worthwhileBatch = 32
    private static let concurrentBatches = 4
    /// How often a registration may turn out to supersede more installations than its transaction should.
    private static let maximumPreparations = 5

    private let fences: FencePublisher
    private let warnings: RegistrationWarnings
    private let transactions: Transactions
    private let supersession: Supersession
    private let crowded: CrowdedInstallations
    private let queue: CommitQueue<RegistryRequest, Committed>

    package init(pool: PostgresPool, fences: FencePublisher, metrics: RegistryMetrics) {
        self.fences = fences
        warnings = RegistrationWarnings(pool: pool)
        supersession = Supersession(pool: pool, fences: fences)
        let transactions = Transactions(pool: pool, metrics: metrics)
        self.transactions = transactions
        let crowded = CrowdedInstallations()
        self.crowded = crowded
        queue = CommitQueue(
            "/registrations", maximumBatch: Self.maximumBatch, worthwhileBatch: Self.worthwhileBatch, concurrency: Self.concurrentBatches,
            maximumWeight: Self.maximumNames, weight: { Self.weight(of: $0, crowded) }, owner: { $0.app.slug.text },
            commit: { requests, onward in
                await transactions.commit(requests, onward: onward) { $0.count == 1 && crowded.contains($0[0].installation) }
            },
            afterwards: { requests, answers in
                for (request, answer) in zip(requests, answers) {
                    switch answer {
                    case .success(let committed): crowded.note(request.installation, tokens: committed.result.record.tokens.count)
                    case .failure(is LongChain): crowded.note(request.installation)
                    case .failure: break
                    }
                }
            })
    }

    /// A request for an installation with many tokens, or with a long chain of moves, fills a batch.
    static func weight(of request: RegistryRequest, _ crowded: CrowdedInstallations) -> Int {
        crowded.contains(request.installation) ? maximumNames : request.weight
    }

    /// - Throws: ``OwnerMismatch``, ``PreconditionFailed`` or ``TooManyChanges``, which have no effect; `PostgresError`;
    ///   ``CommitQueueFull``.
    package func register(_ registration: Registration, app: App) async throws -> Result {
        try await submit(RegistryRequest(app: app, registration))
    }

    /// - Throws: As ``register(_:app:)``; ``NotRegistered``.
    package func change(_ patch: InstallationPatch, app: App) async throws -> Result {
        try await submit(RegistryRequest(app: app, patch))
    }

    /// - Throws: As ``register(_:app:)``; ``NotRegistered``.
    package func report(_ report: ActivityReport, app: App) async throws -> Result {
        try await submit(RegistryRequest(app: app, report))
    }

    /// - Throws: ``PreconditionFailed`` or ``NotRegistered``, which have no effect; `PostgresError`; ``CommitQueueFull``.
    package func tag(_ assignment: TagAssignment, app: App) async throws -> Result {
        try await submit(RegistryRequest(app: app, assignment))
    }

    /// Registers many: one answer for each, in their order, with the tokens that it names, and whether it has stated tags. One that fails
    /// leaves the others alone. Later ones see the results of earlier ones.
    package func register(_ registrations: [Registration], app: App) async -> [Swift.Result<Result, any Error>] {
        var results: [Swift.Result<Result, any Error>] = []
        results.reserveCapacity(registrations.count)
        var start = 0
        while start < registrations.count {
            let requests = Self.batch(of: registrations[start...], app: app, crowded)
            let answers = await commit(requests)
            for ((request, registration), answer) in zip(zip(requests, registrations[start...]), answers) {
                results.append(
                    answer.map { result in
                        crowded.note(request.installation, tokens: result.record.tokens.count)
                        // The body bounds the answer: an installation may have hundreds of other tokens, and kilobytes of tags.
                        var result = result
                        result.record.tokens.removeAll { !request.tokens.contains($0.token) }
                        result.hasStatedTags = registration.tags != nil
                        return result
                    })
            }
            start += requests.count
        }
        let found = await warnings.of(results.map { try? $0.get().record })
        return zip(results, found).map { result, warnings in
            result.map { result in
                var result = result
                result.warnings = warnings
                return result
            }
        }
    }

    /// The first of these, as many as share a transaction.
    static func batch(
        of registrations: some Sequence<Registration>, app: App, _ crowded: CrowdedInstallations
    ) -> [RegistryRequest] {
        var (requests, weight): ([RegistryRequest], Int) = ([], 0)
        for registration in registrations.prefix(maximumBatch) {
            let request = RegistryRequest(app: app, registration)
            weight += Self.weight(of: request, crowded)
            guard requests.isEmpty || weight <= maximumNames else { break }
            requests.append(request)
        }
        return requests
    }

    /// Changes that wait for a transaction.
    package var waitingCount: Int { queue.waitingCount }

    private func submit(_ request: RegistryRequest) async throws -> Result {
        var superseded = FenceState.none
        for _ in 0..<Self.maximumPreparations {
            do {
                let committed = try await queue.submit(request)
                var result = committed.narrowed(by: await fences.publish(committed.fences), superseded: superseded)
                result.warnings = await warnings.of([result.record])[0]
                return result
            } catch is SupersedesTooMany {
                // Not in the queue, where other registrations would wait for it.
                superseded = superseded.combined(with: try await supersession.signOutOthers(for: request))
            } catch is LongChain {
                // The queue has noted the installation, and lets the request go alone.
            }
        }
        throw CommitQueueFull()
    }

    private func commit(_ requests: [RegistryRequest]) async -> [Swift.Result<Result, any Error>] {
        var superseded = FenceState.none
        var failures: [Int: any Error] = [:]
        do {
            for index in try await Supersession.excessive(among: requests, in: transactions.pool) {
                do {
                    superseded = superseded.combined(with: try await supersession.signOutOthers(for: requests[index]))
                } catch {
                    failures[index] = error
                }
            }
        } catch {
            return requests.map { _ in .failure(error) }
        }
        // A long chain of moves goes alone in its turn, before the later ones: they may be of the same installation.
        let committed = await transactions.commit(requests, isAlone: { $0.count == 1 })
        let fence = await fences.publish(committed.flatMap(\.fences))
        return committed.enumerated().map { [superseded, failures] index, result in
            result.map { $0.narrowed(by: fence, superseded: superseded) }
                .mapError { $0 is SupersedesTooMany ? failures[index] ?? CommitQueueFull() : $0 }
        }
    }
}

extension InstallationRegistration {
    /// Why a transaction was run once more.
    enum RepeatReason: String, CaseIterable {
        /// PostgreSQL ended it to resolve a deadlock, or because it could not be serialized.
        case conflict
        /// APNs' answer about a token came between its read and its write.
        case answer
    }

    struct Committed: Sendable {
        var result: Result
        /// The fences that the answer waits for: its own, and those of the installation that were left open before.
        var fences: [Fence]

        /// - Parameter superseded: The state of the fences of installations that were signed out before.
        func narrowed(by published: FenceState, superseded: FenceState) -> Result {
            var result = result
            if !fences.isEmpty { result.record.fence = result.record.fence.narrowed(by: published) }
            if superseded == .pending { result.record.fence = .pending }
            return result
        }
    }

    /// One transaction for many requests.
    struct Transactions: Sendable {
        let pool: PostgresPool
        var metrics: RegistryMetrics?

        /// One answer per request, in their order; ``LongChain`` for a request that must go alone.
        /// - Parameter isAlone: Whether a part of the requests is one that no other caller waits for.
        func commit(
            _ requests: [RegistryRequest], onward: @escaping CommitQueue<RegistryRequest, Committed>.Onward = { _ in nil },
            isAlone: @escaping @Sendable ([RegistryRequest]) -> Bool = { _ in false }
        ) async -> [Swift.Result<Committed, any Error>] {
            await pool.commitSeries(requests, onward: onward) { requests, session in
                session.inParts(requests) { part in try attemptBounded(part, isShared: !isAlone(part), in: session) }
            }
        }

        /// Refuses those that supersede too much, and leaves the others alone.
        private func attemptBounded(
            _ requests: [RegistryRequest], isShared: Bool, in session: PostgresSession
        ) throws -> [Swift.Result<Committed, any Error>] {
            let excessive = try Supersession.excessive(among: requests, in: session)
            guard !excessive.isEmpty else { return try attempt(requests, isShared: isShared, in: session) }
            let rest = requests.indices.filter { !excessive.contains($0) }
            var results = requests.map { _ in Swift.Result<Committed, any Error>.failure(SupersedesTooMany()) }
            guard !rest.isEmpty else { return results }
            for (index, result) in zip(rest, try attempt(rest.map { requests[$0] }, isShared: isShared, in: session)) {
                results[index] = result
            }
            return results
        }

        private func attempt(
            _ requests: [RegistryRequest], isShared: Bool, in session: PostgresSession
        ) throws -> [Swift.Result<Committed, any Error>] {
            metrics?.commits(requests.count)
            var (runs, answers) = (0, 0)
            defer {
                if answers > 0 { metrics?.repeated(.answer, answers) }
                if runs > answers + 1 { metrics?.repeated(.conflict, runs - answers - 1) }
            }
            return try session.registryTransaction(onAnswer: { answers += 1 }) { session in
                runs += 1
                return try RegistryStore(session: session).commit(requests, isShared: isShared)
            }
        }
    }
}

extension RegistryStore {
    /// One answer per request, in their order. A request that is refused has not changed the batch, so the others are committed without it.
    func commit(
        _ requests: [RegistryRequest], isShared: Bool = false
    ) throws -> [Result<InstallationRegistration.Committed, any Error>] {
        let allNeeds = Dictionary(grouping: requests, by: \.app.id).sorted { $0.key < $1.key }.map { app, requests -> Needs in
            let signOuts = Set(requests.flatMap(\.signOuts))
            return Needs(
                app: app, installations: Array(Set(requests.map(\.installation.id))), tokens: Array(Set(requests.flatMap(\.tokens))),
                users: requests.compactMap(\.onlyInstallationOf), signOuts: Array(signOuts))
        }
        var activities = try ActivityReports(requests, in: session)
        let loaded = try load(allNeeds, locking: RegistryLock.unique(requests.flatMap(\.locks)))
        let (batch, results) = try apply(loaded.batch, isShared: isShared) { batch in
            requests.map { request in
                Result {
                    try activities.admit(request, in: batch)
                    return try batch.apply(request.change, of: request.app)
                }
            }
        }
        let reports = zip(requests, results).flatMap { request, result -> [ActivityReports.Taken] in
            guard case .success(let result) = result, let record = result.record else { return [] }
            return ActivityReports.Taken.all(of: request, record, in: batch)
        }
        try activities.lock(reports, in: batch)
        let written = try save(batch, also: activities.writes(reports, batch: batch))
        return zip(requests, results).map { request, result in
            result.flatMap { result in
                guard let record = result.record else { return .failure(CorruptRow(table: "installations")) }
                let open = loaded.openFences.filter { $0.installation == request.installation.id && $0.app == request.app.slug }
                return .success(
                    InstallationRegistration.Committed(
                        result: InstallationRegistration.Result(record: record, isNew: result.isNew),
                        fences: open + result.fenced.sorted().compactMap { written[$0] }))
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
    /// The rest of this state after its unpublished fences were published with the given result.
    package func narrowed(by published: FenceState) -> FenceState {
        switch published {
        case .none: self
        case .effective: .effective
        case .pending: .pending
        }
    }
}

/// Counts registrations, sign-outs and restored tokens.
package struct RegistryMetrics: Sendable {
    private let created: Counter
    private let updated: Counter
    private let signOuts: Counter
    private let restoredTokens: Counter
    package let changesWaiting: GaugeMetric
    private let changesPerCommit: Recorder
    private let commitsRepeated: [InstallationRegistration.RepeatReason: Counter]

    package init(_ registry: PrometheusMetrics) {
        let registrations = registry.counters(
            "push_token_service_registrations_total", ["result"], "Registrations. Result: created, updated.")
        created = registrations["created"]
        updated = registrations["updated"]
        signOuts = registry.counter("push_token_service_sign_outs_total", "Installations signed out by request.")
        restoredTokens = registry.counter("push_token_service_tokens_restored_total", "Tokens that came back out of quarantine.")
        changesWaiting = registry.gauge(
            "push_token_service_changes_waiting",
            "Registrations and changes that wait for a transaction; at 10,000 more are refused (503); alert when it stays above "
                + "1,000.")
        changesPerCommit = registry.recorder(
            "push_token_service_changes_per_commit", [1, 2, 4, 8, 16, 32, 64, 128, 256], "How many of them shared a transaction.")
        commitsRepeated = registry.counters(
            "push_token_service_commits_repeated_total", by: "reason", InstallationRegistration.RepeatReason.self,
            """
            Transactions of them that were run once more: ended by PostgreSQL to resolve a deadlock, or overtaken by an answer of APNs \
            about 
            """
                + "a token. Reason: conflict, answer.")
    }

    func registered(isNew: Bool) { (isNew ? created : updated).increment() }
    package func registered(created: Int, updated: Int) {
        self.created.increment(by: created)
        self.updated.increment(by: updated)
    }
    func signedOut(_ number: Int) { signOuts.increment(by: number) }
    func restored(_ number: Int) { restoredTokens.increment(by: number) }
    func commits(_ changes: Int) { changesPerCommit.record(changes) }
    func repeated(_ reason: InstallationRegistration.RepeatReason, _ number: Int) { commitsRepeated[reason]?.increment(by: number) }
}
