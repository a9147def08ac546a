import APNs
import OpenSSL
import PushModel
import Synchronization
import SystemIO

/// The pools of this process: those that serve, and replaced ones that finish their requests. Thread-safe.
final class PoolTable: Sendable {
    /// The name of a pool in metrics and logs: one credential at one service in one environment, with any pool that serves it.
    struct Place: Hashable, Sendable {
        let credential: String
        let environment: APNsEnvironment
        let service: APNsService
    }

    /// The pools of one credential in one environment.
    struct Serving: Sendable {
        let number: PoolNumber
        /// The pool for pushes to devices.
        let pool: APNsPool
        let plan: CredentialPlan.Pool
        /// The pools for broadcasts and channels, made when first needed, so that an installation without broadcasts connects nowhere else.
        fileprivate(set) var others: [APNsService: APNsPool] = [:]

        var all: [(service: APNsService, pool: APNsPool)] { [(.device, pool)] + others.map { ($0.key, $0.value) } }

        fileprivate func place(_ service: APNsService) -> Place {
            Place(credential: plan.credential.name, environment: plan.environment, service: service)
        }
    }

    private struct Contents {
        var serving: [PoolNumber: Serving] = [:]
        var leaving: [PoolNumber: Serving] = [:]
        /// The totals of pools that are gone: counters never go back.
        var gone: [Place: APNsPoolSnapshot.Totals] = [:]
        /// No more pools are made.
        var isShutDown = false

        mutating func pool(
            _ number: PoolNumber, _ service: APNsService, _ make: (CredentialPlan.Pool, APNsService) throws(TLSError) -> APNsPool
        ) throws(TLSError) -> APNsPool? {
            guard let known = serving[number] else { return leaving[number]?.pool(service) }
            if let pool = known.pool(service) { return pool }
            guard !isShutDown else { return nil }
            let pool = try make(known.plan, service)
            serving[number]?.others[service] = pool
            return pool
        }
    }

    private let contents = Mutex(Contents())
    private let make: @Sendable (CredentialPlan.Pool, APNsService) throws(TLSError) -> APNsPool
    private let onFinished: @Sendable ([APNsFinishedBatch]) -> Void

    /// - Parameters:
    ///   - make: a pool, which connects when there is work.
    ///   - onFinished: gets the batches that came for a pool that is gone.
    init(
        onFinished: @escaping @Sendable ([APNsFinishedBatch]) -> Void,
        make: @escaping @Sendable (CredentialPlan.Pool, APNsService) throws(TLSError) -> APNsPool
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
            made.append(Serving(number: pool.number, pool: try make(pool, .device), plan: pool))
        }
        contents.withLock { contents in for new in made { contents.serving[new.number] = new } }
        return made
    }

    var serving: [Serving] {
        contents.withLock { $0.serving.values.sorted { $0.number < $1.number } }
    }

    /// - Parameter batches: all for one service.
    func submit(_ batches: [APNsBatch], to number: PoolNumber) {
        guard let service = batches.first?.target.service else { return }
        let reason: NotSentReason
        do throws(TLSError) {
            let pool = try contents.withLock { contents throws(TLSError) in try contents.pool(number, service, make) }
            if let pool { return pool.submit(batches) }
            // The caller chooses a pool anew.
            reason = .shuttingDown
        } catch {
            reason = .notConnected
        }
        onFinished(batches.map { APNsFinishedBatch(batch: $0, notSent: reason) })
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
        let all = contents.withLock { contents in
            contents.isShutDown = true
            return Array(contents.serving.values) + Array(contents.leaving.values)
        }
        for (_, pool) in all.flatMap(\.all) {
            Task { await pool.shutdown(deadline: deadline) }
        }
    }

    private func close(_ retired: Serving, deadline: Duration) {
        Task {
            await withDiscardingTaskGroup { group in
                for (_, pool) in retired.all { group.addTask { await pool.shutdown(deadline: deadline) } }
            }
            contents.withLock { contents in
                contents.leaving[retired.number] = nil
                for (service, pool) in retired.all {
                    contents.gone[retired.place(service), default: APNsPoolSnapshot.Totals()].add(pool.snapshot().totals)
                }
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
        for (pools, serves) in serving.values.map({ ($0, true) }) + leaving.values.map({ ($0, false) }) {
            for (service, pool) in pools.all {
                let place = pools.place(service)
                let view = View(place, plan: serves ? pools.plan : nil, pool.snapshot())
                views[place] = views[place].map { $0.merged(with: view) } ?? view
            }
        }
        return views.values.sorted { $0.place < $1.place }
    }
}

extension PoolTable.Place: Comparable {
    static func < (left: Self, right: Self) -> Bool {
        (left.credential, left.environment.rawValue, left.service.rawValue)
            < (right.credential, right.environment.rawValue, right.service.rawValue)
    }
}

extension PoolTable.Serving {
    fileprivate func pool(_ service: APNsService) -> APNsPool? { service == .device ? pool : others[service] }
}

extension PoolTable.View {
    /// - Parameter plan: nil if the pool no longer serves.
    fileprivate init(_ place: PoolTable.Place, plan: CredentialPlan.Pool?, _ snapshot: APNsPoolSnapshot) {
        self.init(
            place: place, plan: plan, state: plan == nil ? nil : snapshot.state,
            isProven: plan != nil && snapshot.totals.connectionsProven > 0,
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
