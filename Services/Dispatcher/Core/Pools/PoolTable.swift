import APNs
import OpenSSL
import PushModel
import Synchronization
import SystemIO

/// The pools of this process: those that serve, and replaced ones that finish their requests. Thread-safe.
final class PoolTable: Sendable {
    /// The name of a pool in metrics and logs: one credential in one environment, with any pool that serves it.
    struct Place: Hashable, Sendable {
        let credential: String
        let environment: APNsEnvironment
    }

    /// A pool that serves.
    struct Serving: Sendable {
        let number: PoolNumber
        let pool: APNsPool
        let plan: CredentialPlan.Pool

        var place: Place { Place(credential: plan.credential.name, environment: plan.environment) }
    }

    private struct Contents {
        var serving: [PoolNumber: Serving] = [:]
        var leaving: [PoolNumber: Serving] = [:]
        /// The totals of pools that are gone: counters never go back.
        var gone: [Place: APNsPoolSnapshot.Totals] = [:]
    }

    private let contents = Mutex(Contents())
    private let make: @Sendable (CredentialPlan.Pool) throws(TLSError) -> APNsPool
    private let onFinished: @Sendable ([APNsFinishedBatch]) -> Void

    /// - Parameters:
    ///   - make: a pool, which connects when there is work.
    ///   - onFinished: gets the batches that came for a pool that is gone.
    init(
        onFinished: @escaping @Sendable ([APNsFinishedBatch]) -> Void,
        make: @escaping @Sendable (CredentialPlan.Pool) throws(TLSError) -> APNsPool
    ) {
        self.onFinished = onFinished
        self.make = make
    }

    /// Makes the missing pools of a plan. Those that the plan no longer names serve until ``retire(_:deadline:)``.
    /// - Throws: and then nothing has changed.
    /// - Returns: the new ones.
    func prepare(_ plan: CredentialPlan) throws(TLSError) -> [Serving] {
        let known = contents.withLock { Set($0.serving.keys) }
        var made: [Serving] = []
        for pool in plan.pools where !known.contains(pool.number) {
            made.append(Serving(number: pool.number, pool: try make(pool), plan: pool))
        }
        contents.withLock { contents in for new in made { contents.serving[new.number] = new } }
        return made
    }

    var serving: [Serving] {
        contents.withLock { $0.serving.values.sorted { $0.number < $1.number } }
    }

    func submit(_ batches: [APNsBatch], to number: PoolNumber) {
        let pool = contents.withLock { $0.serving[number] ?? $0.leaving[number] }?.pool
        if let pool { return pool.submit(batches) }
        // Reports them as not sent, so that the caller chooses a pool anew.
        onFinished(batches.map { APNsFinishedBatch(batch: $0, notSent: .shuttingDown) })
    }

    /// These finish requests in flight, give back waiting ones, and go. Returns at once.
    func retire(_ numbers: [PoolNumber], deadline: Duration) {
        let retired = contents.withLock { contents in
            numbers.compactMap { number in
                let pool = contents.serving.removeValue(forKey: number)
                contents.leaving[number] = pool
                return pool
            }
        }
        for pool in retired { close(pool, deadline: deadline) }
    }

    /// The end of this process: as ``retire(_:deadline:)`` for all, but they stay visible in the metrics.
    func shutDown(deadline: Duration) {
        for serving in contents.withLock({ Array($0.serving.values) + Array($0.leaving.values) }) {
            Task { await serving.pool.shutdown(deadline: deadline) }
        }
    }

    private func close(_ retired: Serving, deadline: Duration) {
        Task {
            await retired.pool.shutdown(deadline: deadline)
            contents.withLock { contents in
                contents.leaving[retired.number] = nil
                contents.gone[retired.place, default: APNsPoolSnapshot.Totals()].add(retired.pool.snapshot().totals)
            }
        }
    }

    // MARK: For metrics

    /// The figures of all pools of one place together.
    struct View: Sendable {
        let place: Place
        /// The pool that serves; nil if the credentials no longer name it.
        let plan: CredentialPlan.Pool?
        let state: APNsPoolState?
        /// APNs has accepted the credential on some connection of this pool.
        let isProven: Bool
        /// The waiting requests and the connections of all pools of the place together.
        var queued: [Lane: Int]
        var connections: [APNsPoolSnapshot.Connection]
        var totals: APNsPoolSnapshot.Totals
    }

    func views() -> [View] {
        let (serving, leaving, gone) = contents.withLock { ($0.serving, $0.leaving, $0.gone) }
        var views: [Place: View] = [:]
        for (place, totals) in gone {
            views[place] = View(place: place, plan: nil, state: nil, isProven: false, queued: [:], connections: [], totals: totals)
        }
        for (pool, serves) in serving.values.map({ ($0, true) }) + leaving.values.map({ ($0, false) }) {
            let snapshot = pool.pool.snapshot()
            let view = View(pool, serves: serves, snapshot)
            views[pool.place] = views[pool.place].map { $0.merged(with: view) } ?? view
        }
        return views.values.sorted {
            ($0.place.credential, $0.place.environment.rawValue) < ($1.place.credential, $1.place.environment.rawValue)
        }
    }
}

extension PoolTable.View {
    fileprivate init(_ pool: PoolTable.Serving, serves: Bool, _ snapshot: APNsPoolSnapshot) {
        self.init(
            place: pool.place, plan: serves ? pool.plan : nil, state: serves ? snapshot.state : nil,
            isProven: serves && snapshot.totals.connectionsProven > 0,
            queued: [.now: snapshot.queuedNow, .soon: snapshot.queuedSoon, .bulk: snapshot.queuedBulk], connections: snapshot.connections,
            totals: snapshot.totals)
    }

    fileprivate func merged(with other: Self) -> Self {
        var merged = Self(
            place: place, plan: plan ?? other.plan, state: state ?? other.state, isProven: isProven || other.isProven, queued: queued,
            connections: connections + other.connections, totals: totals)
        merged.queued.merge(other.queued, uniquingKeysWith: +)
        merged.totals.add(other.totals)
        return merged
    }
}
