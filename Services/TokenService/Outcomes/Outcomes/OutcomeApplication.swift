package import Postgres
package import PushModel
import TokenServiceRegistry
package import TokenServiceSending

/// Applies outcome events to the database: one transaction per batch, and the same events again change nothing.
package struct OutcomeApplication: Sendable {
    let pool: PostgresPool

    package init(pool: PostgresPool) { self.pool = pool }

    /// The changes of a batch.
    package struct Effect: Equatable, Sendable {
        /// Deliveries that got their final outcome now, by class.
        package var finished: [OutcomeClass: Int] = [:]
        /// Final outcomes of deliveries that had theirs already, or that are unknown here.
        package var repeated = 0
        package var completedNotifications = 0
        package var retiredGone = 0
        package var retiredRejected = 0
        /// Start tokens that are doubtful now.
        package var doubtful = 0
        /// Tokens that APNs ended once more, though it had ended them before (``TokenState/EndsByAPNs/isRepeated``).
        package var endedAgain = 0
        package var throttledInstallations = 0
        /// Tokens that APNs accepts in another environment than they were registered for.
        package var corrected = 0
        /// Apps whose brake is engaged: their rejected tokens were left alone.
        package var braked: [Int64] = []
        /// The names of the braked apps.
        package var slugs: [Int64: AppSlug] = [:]
        /// Apps that had rejected tokens too, but not too many.
        package var unbraked: [Int64] = []
        /// Tokens of the braked apps that had been retired and are in quarantine now.
        package var quarantined = 0
        /// Updates of Live Activities and channels whose turn it may be now.
        package var released = 0
        /// Updates that a newer one replaced before they were sent again.
        package var superseded = 0
        /// Channels that Apple does not have any more, as it answered to a broadcast.
        package var absentChannels: [BroadcastChannel.ID] = []

        fileprivate mutating func add(_ other: Effect) {
            finished.merge(other.finished, uniquingKeysWith: +)
            repeated += other.repeated
            completedNotifications += other.completedNotifications
            retiredGone += other.retiredGone
            retiredRejected += other.retiredRejected
            doubtful += other.doubtful
            endedAgain += other.endedAgain
            throttledInstallations += other.throttledInstallations
            corrected += other.corrected
            braked = other.braked.isEmpty ? braked : Set(braked + other.braked).sorted()
            unbraked = other.unbraked.isEmpty ? unbraked : Set(unbraked + other.unbraked).subtracting(braked).sorted()
            slugs.merge(other.slugs) { $1 }
            quarantined += other.quarantined
            released += other.released
            superseded += other.superseded
            absentChannels += other.absentChannels
        }

        /// Lists the apps' names: people know no app by its number.
        func names(of apps: [Int64]) -> String { apps.compactMap { slugs[$0]?.text }.joined(separator: ", ") }
    }

    package func apply(_ batch: OutcomeBatch) async throws -> Effect {
        var effect = Effect()
        var rest: OutcomeBatch? = batch
        while let batch = rest {
            effect.add(try await applyBatch(batch))
            rest = batch.next
        }
        return effect
    }

    private func applyBatch(_ batch: OutcomeBatch) async throws -> Effect {
        guard !batch.isEmpty else { return Effect() }
        var effect = try await inTransaction(batch)
        // A channel's scope is locked before its row, which the transaction before has locked. If this process dies here, the next list of
        // the scope shows the absence.
        for channel in effect.absentChannels {
            try await pool.transaction { session in
                try ChannelAbsence.note(of: channel, now: ChannelStore.now(in: session), in: session)
            }
        }
        var last = effect.quarantined
        while last == OutcomeStore.maximumQuarantined {
            let apps = effect.braked
            last = try await pool.transaction { session in try Self.quarantine(apps, in: OutcomeStore(session: session)) }
            effect.quarantined += last
        }
        return effect
    }

    /// Tries again if a registration has just made the row that a corrected environment would have made: the next try sees it.
    private func inTransaction(_ batch: OutcomeBatch) async throws -> Effect {
        var attemptsLeft = 5
        while true {
            do {
                return try await pool.transaction { session in try Self.write(batch, in: OutcomeStore(session: session)) }
            } catch let error as PostgresError where error.code == .sqlState(.uniqueViolation) && attemptsLeft > 0 {
                attemptsLeft -= 1
            }
        }
    }

    /// Locks are taken in one order everywhere: the apps' brakes, the apps' ``ErasureBarrier``, then rows: Live Activities and channels,
    /// jobs, receipts, notifications, installations, tokens; each in ascending order of its key.
    private static func write(_ batch: OutcomeBatch, in store: OutcomeStore) throws -> Effect {
        let rejecting = try store.lockBrakes(of: batch.final.filter { $0.outcome == .tokenRejected })
        let origins = try store.origins(of: batch)
        try store.session.execute(ErasureBarrier.hold(Set(origins.values.map(\.app))))
        var turns = try UpdateTurns(of: origins, in: store.session)
        let attempts = OutcomeStore.known(batch.attempts, origins)
        let final = OutcomeStore.known(batch.final, origins)
        let throttled = OutcomeStore.known(batch.throttled, origins)
        if !attempts.isEmpty {
            try store.lockJobs(of: final + attempts)
            try store.noteAttempts(attempts)
        }
        let finished = try store.finish(final, of: origins)

        var effect = Effect()
        effect.repeated = batch.reportedFinal - finished.count
        for delivery in finished { effect.finished[delivery.outcome, default: 0] += 1 }
        effect.absentChannels = absentChannels(finished.filter { BroadcastMember.isChannel($0.token) }, final)
        let completed = try store.countInNotifications(finished)
        effect.completedNotifications = completed.count
        (effect.released, effect.superseded) = try turns.note(finished: finished, completed: completed, attempts: attempts)
        try store.lockInstallations(of: throttled + final.filter(\.isCorrection), origins)
        effect.throttledInstallations = try store.throttle(throttled)
        try store.count(finished)
        let brakes = try store.brakes(of: rejecting)
        effect.braked = brakes.filter { $0.value.isEngaged }.map(\.key).sorted()
        effect.slugs = try store.slugs(of: effect.braked)
        effect.unbraked = brakes.filter { !$0.value.isEngaged }.map(\.key).sorted()
        let starting = Set(origins.filter { $0.value.isStart }.keys)
        try retire(TokenAnswers(finished, of: batch, braked: Set(effect.braked), starting: starting), effect: &effect, in: store)
        return effect
    }

    /// Finds the channels whose broadcasts Apple answered with that reason.
    private static func absentChannels(_ broadcasts: [OutcomeStore.Finished], _ final: [OutcomeBatch.Entry]) -> [BroadcastChannel.ID] {
        guard !broadcasts.isEmpty else { return [] }
        let absent = Set(final.filter { $0.delivery.reason == ChannelRefusal.notRegistered }.map(\.delivery.id))
        return broadcasts.filter { absent.contains($0.id) }.map { BroadcastMember.channel(of: $0.token) }
    }

    /// The transaction's last step: it commits.
    private static func retire(_ answers: TokenAnswers, effect: inout Effect, in store: OutcomeStore) throws {
        let unjust = try store.retiredInWindow(of: effect.braked)
        let registry = RegistryStore(session: store.session)
        let tokens = try answers.tokens.union(unjust).union(registry.counting(answers.startTokens))
        guard !tokens.isEmpty else { return }
        var batch = try registry.load(tokens: tokens, corrected: answers.corrected)
        effect.retiredGone = batch.apply(toTokens: answers.gone)
        effect.retiredRejected = batch.apply(toTokens: answers.rejected)
        effect.endedAgain = batch.tokens.count(where: { $0.writing == .everything && $0.endsByAPNs.isRepeated })
        effect.doubtful = batch.apply(toTokens: answers.starts)
        effect.corrected = batch.apply(toTokens: answers.corrections)
        _ = batch.apply(toTokens: answers.proofs)
        effect.quarantined = batch.apply(toTokens: unjust.map { .quarantine(token: $0) })
        try registry.save(batch, areTokensLocked: true)
    }

    /// Quarantines the tokens for which a batch's own transaction, which must stay short, had no room.
    private static func quarantine(_ apps: [Int64], in store: OutcomeStore) throws -> Int {
        try store.lockBrakes(of: apps)
        var effect = Effect(braked: apps)
        try retire(TokenAnswers([], of: OutcomeBatch([]), braked: []), effect: &effect, in: store)
        return effect.quarantined
    }
}

/// Stops retiring tokens that APNs rejects when too many are rejected at once: then the fault is our own, a wrong environment or topic, and
/// not the devices'.
package struct RejectionBrake: Equatable, Sendable {
    package static let windowMinutes = 10
    /// Never engaged by fewer rejections than this.
    package static let allowance: Int64 = 20
    /// The largest share before the brake engages, in per cent of the app's finished deliveries in the window.
    package static let maximumShare: Int64 = 20

    package let finished: Int64
    package let rejected: Int64

    package init(finished: Int64, rejected: Int64) {
        self.finished = finished
        self.rejected = rejected
    }

    package var isEngaged: Bool {
        rejected > Self.allowance && rejected * 100 > finished * Self.maximumShare
    }
}

/// The Live Activities and channels whose updates a batch of outcomes is about. When an update has its outcomes, the next one's turn comes.
struct UpdateTurns {
    private var targets: [UpdateTarget.Key: UpdateTarget]
    private let keys: [PushID: UpdateTarget.Key]
    private let session: PostgresSession

    /// Locks them, before any job or notification.
    init(of origins: [PushID: OutcomeStore.Origin], in session: PostgresSession) throws {
        keys = origins.compactMapValues(\.updates)
        targets = keys.isEmpty ? [:] : try UpdateTargetStore(session: session).lock(keys.values)
        self.session = session
    }

    /// - Parameters:
    ///   - finished: Deliveries that have their outcome now.
    ///   - completed: Notifications that have all their outcomes now.
    ///   - attempts: Deliveries that were tried and have no outcome yet.
    /// - Returns: how many updates may go next, and how many a newer one replaced.
    mutating func note(
        finished: [OutcomeStore.Finished], completed: [PushID], attempts: [OutcomeBatch.Entry]
    ) throws -> (released: Int, superseded: Int) {
        guard !targets.isEmpty else { return (0, 0) }
        var (released, superseded): ([PushID], [PushID]) = ([], [])
        var changed: Set<UpdateTarget.Key> = []
        // APNs has accepted these, or may have.
        let arrived = finished.lazy.filter { $0.outcome == .accepted || $0.outcome == .unknown }
        for notification in Set(arrived.map(\.notification)) {
            guard let key = keys[notification], key.isChannel else { continue }
            _ = change(key, &changed) { target in
                target.arrived(notification)
                return nil
            }
        }
        for notification in completed {
            guard let key = keys[notification], let next = change(key, &changed, { $0.completed(notification) }) else { continue }
            released.append(next)
        }
        for notification in Set(attempts.lazy.filter { $0.delivery.retryAt != nil }.map(\.delivery.notification)).sorted() {
            guard let key = keys[notification],
                let next = change(key, &changed, { $0.failed(notification, superseded: &superseded) })
            else { continue }
            released.append(next)
        }
        let rows = changed.sorted().compactMap { targets[$0] }
        let queries = CancellationOutbox.supersede(superseded) + UpdateTargetStore.release(released) + UpdateTargetStore.save(rows)
        if !queries.isEmpty { _ = try session.pipeline(queries) }
        return (released.count, superseded.count)
    }

    private mutating func change(
        _ key: UpdateTarget.Key, _ changed: inout Set<UpdateTarget.Key>, _ change: (inout UpdateTarget) -> PushID?
    ) -> PushID? {
        guard var target = targets[key] else { return nil }
        let next = change(&target)
        if target != targets[key] {
            targets[key] = target
            changed.insert(key)
        }
        return next
    }
}
