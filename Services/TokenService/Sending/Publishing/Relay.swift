package import Broker
package import Logging
package import Postgres
import PushModel
import ServiceLifecycle
import Synchronization
package import TokenServiceKit
package import TokenServiceRegistry

/// Publishes the jobs that are left over: of a dead process, of a time without the broker, of a failed publication, and those that are due
/// later. Any number of relays may run: each claims its own share with a lease.
package final class Relay: Service {
    /// Jobs of a lane that may be under way before more are claimed: bounds memory for any backlog. A lane whose queue does not answer
    /// takes no other lane's places.
    static let maximumUnderWay = 500
    /// Fan-outs under way at once. See ``freePlaces(for:beside:)``.
    private static let maximumFanOuts = 4

    private let pool: PostgresPool
    private let publisher: Publisher
    private let jobs: JobPublisher
    private let fences: FencePublisher
    private let cancellation: Cancellation
    private let holds: HoldService
    private let confirms: ConfirmWriter
    private let window: RelayWindow
    private let backlog: PublishBacklog
    private let wakeUp: WorkSignal
    private let timing: Timing
    private let metrics: PublishingMetrics
    private let logger: Logger
    private let fanOut: FanOut
    private let watch: FanOutWatch
    private let fanOuts = Mutex<[PushID: AppLane]>([:])
    /// Until when a step rests that failed.
    private let rests = Mutex<[StepOfLane: ContinuousClock.Instant]>([:])
    /// When a job was last found that could be read.
    private let lastRead = Mutex<ContinuousClock.Instant?>(nil)
    private let sizes = RelaySizes()
    private let exchange: MarkExchange
    private var marks: OutboxMarks { exchange.marks }
    private let turns = FanOutTurns()
    /// How long a fault counts as one of the jobs that meet it after a job could be read.
    private static let readingSpan = Duration.seconds(60)

    /// A part of a round, which fails alone.
    enum Step: String, CaseIterable {
        case marks, backlog, holds, fences, cancellations, hastening, releases, jobs
        case waitingJobs = "waiting_jobs"
        case waitingFanOuts = "waiting_fan_outs"
        case fanOuts = "fan_outs"

        fileprivate var failure: Logger.Message {
            switch self {
            case .marks: "The marks of waiting rows could not be exchanged"
            case .waitingJobs: "Waiting jobs could not be found"
            case .waitingFanOuts: "Waiting fan-outs could not be found"
            case .backlog: "The backlog could not be measured"
            case .holds: "Holds could not be read"
            case .fences: "Fences that are left over could not be published"
            case .cancellations: "Cancellations that are left over could not be published"
            case .hastening: "Jobs of cancelled notifications could not be made due"
            case .releases: "Holds could not be published or released"
            case .jobs: "Jobs of a lane could not be taken over"
            case .fanOuts: "Fan-outs of a lane could not be taken over"
            }
        }
    }

    private struct StepOfLane: Hashable {
        let step: Step
        let lane: Lane?
    }

    package struct Timing: Sendable {
        package var interval: Duration
        package var lease: Duration

        package init(interval: Duration, lease: Duration) {
            self.interval = interval
            self.lease = lease
        }
    }

    package init(
        pool: PostgresPool, publisher: Publisher, jobs: JobPublisher, fences: FencePublisher, cancellation: Cancellation,
        holds: HoldService, confirms: ConfirmWriter, window: RelayWindow, backlog: PublishBacklog, exchange: MarkExchange,
        wakeUp: WorkSignal, timing: Timing, fanOutPage: Int, watch: FanOutWatch, metrics: PublishingMetrics, logger: Logger
    ) {
        self.pool = pool
        self.publisher = publisher
        self.jobs = jobs
        self.fences = fences
        self.cancellation = cancellation
        self.holds = holds
        self.confirms = confirms
        self.window = window
        self.backlog = backlog
        self.exchange = exchange
        self.wakeUp = wakeUp
        self.timing = timing
        self.metrics = metrics
        self.logger = logger
        self.watch = watch
        fanOut = FanOut(
            pool: pool, jobs: jobs, holds: holds.cache, page: fanOutPage, lease: timing.lease, turns: turns,
            watch: watch, logger: logger)
    }

    package func run() async throws {
        await withGracefulShutdownHandler {
            await withDiscardingTaskGroup { group in
                group.addTask { while await Pause.of(self.timing.interval) { self.wakeUp.signal() } }
                for await _ in wakeUp.signals {
                    await round(&group)
                }
                group.cancelAll()
            }
        } onGracefulShutdown: {
            self.wakeUp.end()
        }
    }

    /// A step that fails, because a row is locked or a statement takes too long, keeps no other step from its work. It rests for an
    /// interval: after an outage the writer records what is published before the relay claims it again.
    private func round(_ group: inout DiscardingTaskGroup) async {
        func step(_ step: Step, of lane: Lane? = nil, _ body: () async throws -> Void) async {
            let key = StepOfLane(step: step, lane: lane)
            guard rests.withLock({ $0[key] ?? .now <= .now }) else { return }
            do { try await body() } catch {
                guard !(error is CancellationError) else { return }
                rests.withLock { $0[key] = .now + timing.interval }
                metrics.failed(step)
                logger.failed(step.failure, error, lane.map { [LogKey.lane: "\($0.rawValue)"] } ?? [:])
            }
        }
        await step(.marks) { try await exchange.exchange(in: pool) }
        // One kind's search that takes too long gives up nothing of the other's marks.
        var (waiting, fanOuts): ([WaitingWorkStore.Waiting], [WaitingWorkStore.Waiting]) = ([], [])
        await step(.waitingJobs) { waiting = try await lookForJobs() }
        await step(.waitingFanOuts) { fanOuts = try await lookForFanOuts() }
        measureBacklog(of: (waiting + fanOuts).map(\.key), &group)
        var held: HoldOutbox.Unfinished?
        await step(.holds) { held = try await holds.refresh() }
        guard publisher.state == .ready else { return }
        // A hold may stand for all of the fences.
        if let held { await holds.publishSet(held) }
        await step(.fences) { try await publishFences() }
        await step(.cancellations) { _ = try await cancellation.publishLeftOver() }
        await step(.hastening) { try await cancellation.hastenJobs() }
        // Without them, held work would go out.
        guard let held else { return }
        await step(.releases) { try await holds.publishLiftedAndRelease(held) }
        for lane in Lane.allCases {
            func free(_ found: [WaitingWorkStore.Waiting]) -> [WaitingWorkStore.Waiting] {
                found.filter { $0.key.lane == lane && $0.free != nil }
            }
            await step(.jobs, of: lane) { try await publishJobs(of: lane, free(waiting), &group) }
            await step(.fanOuts, of: lane) { try await beginFanOuts(of: lane, free(fanOuts), &group) }
        }
    }

    private func lookForJobs() async throws -> [WaitingWorkStore.Waiting] {
        try await look(marks.jobs) { store, from in try store.waitingJobs(from: from) }
    }

    private func lookForFanOuts() async throws -> [WaitingWorkStore.Waiting] {
        let leaseSeconds = timing.lease / .seconds(1)
        let found = try await look(marks.fanOuts) { store, from in try store.waitingFanOuts(from: from, leaseSeconds: leaseSeconds) }
        watch.measured(oldestDue: found.compactMap(\.due).min())
        return found
    }

    /// - Returns: The apps and lanes in any order, so that no app is served before the others each time.
    private func look(
        _ marks: LowWater<AppLane>,
        _ body: @escaping @Sendable (WaitingWorkStore, LowWater<AppLane>.Marks) throws -> (now: Int64, found: [WaitingWorkStore.Waiting])
    ) async throws -> [WaitingWorkStore.Waiting] {
        try await marks.search { from in
            let (now, found) = try await pool.session { session in try body(WaitingWorkStore(session: session), from) }
            let oldest = Dictionary(found.compactMap { work in work.free.map { (work.key, $0) } }) { min($0, $1) }
            return (now, oldest, found.shuffled())
        }
    }

    /// Beside the rounds: no job waits for it. One app and lane after the other: if one cannot be counted, the others are.
    private func measureBacklog(of found: [AppLane], _ group: inout DiscardingTaskGroup) {
        guard let beginning = backlog.beginMeasuring() else { return }
        group.addTask {
            defer { self.backlog.endMeasuring(beginning) }
            for key in self.backlog.waiting.union(found) {
                do { try await self.measureBacklog(of: key) } catch {
                    guard !Task.isCancelled else { return }
                    self.metrics.failed(.backlog)
                    self.logger.failed(Step.backlog.failure, error, [LogKey.app: "\(key.app)", LogKey.lane: "\(key.lane.rawValue)"])
                    guard Refusal(error) != .outage else { return }
                }
            }
        }
    }

    private func measureBacklog(of key: AppLane) async throws {
        let (limit, leaseSeconds, moment) = (backlog.limit + 1, timing.lease / .seconds(1), backlog.moment)
        let (jobs, fanOuts) = (marks.jobs.marks[key], marks.fanOuts.marks[key])
        let size = try await pool.session { session in
            try WaitingWorkStore(session: session).backlog(of: key, jobs: jobs, fanOuts: fanOuts, limit: limit, leaseSeconds: leaseSeconds)
        }
        backlog.measured(size, of: key, since: moment)
    }

    /// Publishes fences that are left over, some in each round: millions of them keep no job waiting. A job needs no fence before it: its
    /// devices are found anew when it is published, and have their present owners.
    private func publishFences() async throws {
        let published = try await fences.publishLeftOver(in: pool)
        let areMore = published == FencePublisher.maximumLeftOver
        if published > 0 {
            logger.log(
                level: areMore ? .debug : .info, "Fences that were left over are on the control stream",
                metadata: [LogKey.count: "\(published)"])
        }
        if areMore { wakeUp.signal() }
    }

    /// Publishes some of a lane's jobs that are due or left over: each app's share. If more wait, the next round follows at once, in which
    /// fences, cancellations and the other lanes have their turn.
    private func publishJobs(of lane: Lane, _ waiting: [WaitingWorkStore.Waiting], _ group: inout DiscardingTaskGroup) async throws {
        let leaseSeconds = timing.lease / .seconds(1)
        let isOpen = window.isOpen(lane)
        let room = min(room(in: lane), sizes.size(of: lane))
        guard room > 0, !waiting.isEmpty else { return }
        let (cache, from) = (holds.cache, marks.jobs.marks)
        let shares = waiting.map { WaitingWorkStore.Share(app: $0.app, from: from[$0.key]) }
        do {
            let (jobs, held) = try await pool.transaction { session in
                let claimed = try JobStore(session: session).claim(room, of: lane, among: shares, leaseSeconds: leaseSeconds)
                // Read after the claim: by now the cache has every hold that this process set before these became due. It may lack another
                // process's newest hold. A dispatcher then puts the job aside, by the job's notification or its original.
                guard !cache.isEmpty, !claimed.isEmpty else { return (claimed, 0) }
                let store = HoldOutbox(session: session)
                let held = try store.putAside(jobs: claimed, under: try store.lockInForce())
                return (claimed.filter { !held.contains($0) }, held.count)
            }
            holds.putAside(held)
            try await publish(jobs, isNews: isOpen, &group)
            sizes.succeeded(lane)
            // An app may have more than its share. Held jobs took the places of free ones.
            if isOpen && jobs.count + held >= WaitingWorkStore.Share.size(room, among: shares.count) || held > 0 { wakeUp.signal() }
        } catch {
            if (error as? PostgresError)?.isOfSize == true { sizes.failed(lane, at: room) }
            throw error
        }
    }

    /// Begins fan-outs, but not in the transaction that claims jobs. That one locks jobs and then notifications, and a cancellation locks a
    /// notification and then its fan-out: with both in one, the two could wait for each other.
    private func beginFanOuts(of lane: Lane, _ waiting: [WaitingWorkStore.Waiting], _ group: inout DiscardingTaskGroup) async throws {
        let room = fanOutRoom(in: lane)
        turns.wait(lane, room == 0 ? Set(waiting.map(\.key.app)) : [])
        guard room > 0, !waiting.isEmpty else { return }
        let (leaseSeconds, from) = (timing.lease / .seconds(1), marks.fanOuts.marks)
        let running = fanOuts.withLock { $0.values.reduce(into: [AppLane: Int]()) { $0[$1, default: 0] += 1 } }
        let shares = waiting.sorted { running[$0.key] ?? 0 < running[$1.key] ?? 0 }.map {
            WaitingWorkStore.Share(app: $0.app, from: from[$0.key])
        }
        let (free, held) = try await pool.transaction { session in
            let claimed = try WaitingWorkStore(session: session).claimFanOuts(room, of: lane, among: shares, leaseSeconds: leaseSeconds)
            // Not by the cache: a fan-out may make thousands of jobs, and this reads one small index.
            guard !claimed.isEmpty else { return (claimed, 0) }
            let store = HoldOutbox(session: session)
            let held = try store.putAside(fanOuts: claimed.map(\.notification), under: try store.lockInForce())
            return (claimed.filter { !held.contains($0.notification) }, held.count)
        }
        holds.putAside(held)
        let keys = Dictionary(waiting.map { ($0.app, $0.key) }) { first, _ in first }
        try await begin(free.compactMap { claimed in keys[claimed.app].map { (claimed.notification, $0) } }, &group)
        turns.wait(lane, Set(waiting.map(\.key.app)).subtracting(free.compactMap { keys[$0.app]?.app }))
        if held > 0 { wakeUp.signal() }
    }

    private func room(in lane: Lane) -> Int {
        max(0, min(window.size(of: lane), Self.maximumUnderWay - confirms.underWayCount(of: lane)))
    }

    /// A notification that cannot be read keeps no other one waiting. It is put off if others can be read.
    /// - Throws: A fault that may concern every notification. The leases of these jobs end, and a relay tries them again.
    private func publish(_ jobs: [JobID], isNews: Bool, _ group: inout DiscardingTaskGroup) async throws {
        guard !jobs.isEmpty else { return }
        let now = UnixTime.milliseconds()
        let notifications = Dictionary(grouping: jobs, by: \.notification).sorted { $0.key < $1.key }.map(\.value)
        var (resolved, alone): ([PublishableJob], PushID?) = ([], nil)
        let areOthersRead = lastRead.withLock { $0.map { $0 + Self.readingSpan > .now } ?? false }
        let remains = await BatchSplit.write(notifications, othersAreWritten: areOthersRead) { part in
            do {
                resolved += try await pool.session { session in try JobStore(session: session).resolve(part.flatMap(\.self), now: now) }
                return true
            } catch {
                if part.count == 1 { alone = part[0][0].notification }
                throw error
            }
        }
        if !resolved.isEmpty {
            lastRead.withLock { $0 = .now }
            group.addTask { [resolved] in await self.jobs.publishAndWait(resolved) }
            logger.log(
                level: isNews ? .info : .debug, "Jobs that are due or were left over are being published",
                metadata: [LogKey.count: "\(resolved.count)"])
        }
        if !remains.refused.isEmpty { try await putOff(remains.refused) }
        guard !remains.waiting.isEmpty, let fault = remains.failure else { return }
        if remains.outage == nil, let alone, remains.waiting.contains(where: { $0[0].notification == alone }) {
            logger.failed("Jobs of a notification could not be read: they are tried again", fault, [LogKey.notification: "\(alone)"])
        }
        throw fault
    }

    private func putOff(_ unreadable: [(item: [JobID], error: any Error)]) async throws {
        for (jobs, error) in unreadable {
            metrics.unreadable(jobs: jobs.count)
            logger.error(
                "Jobs of a notification cannot be read: they are tried again, ever less often",
                metadata: [
                    LogKey.notification: "\(jobs[0].notification)", LogKey.count: "\(jobs.count)",
                    LogKey.error: "\(Logger.cause(of: error))",
                ])
        }
        let jobs = unreadable.flatMap(\.item)
        try await pool.transaction { session in try JobStore(session: session).putOff(jobs) }
    }

    // MARK: Fan-outs

    private func fanOutRoom(in lane: Lane) -> Int {
        guard window.letsFanOut(lane, now: .now) else { return 0 }
        let room = fanOuts.withLock { Self.freePlaces(for: lane, beside: $0.values.map(\.lane)) }
        return window.isOpen(lane) ? room : min(room, 1)
    }

    /// A place is kept for each other lane that has no fan-out under way: one whose queue does not answer may keep its own for long.
    /// - Parameter running: the lanes of the fan-outs that are under way.
    static func freePlaces(for lane: Lane, beside running: some Collection<Lane>) -> Int {
        let kept = Lane.allCases.count { $0 != lane && !running.contains($0) }
        return max(0, maximumFanOuts - running.count - kept)
    }

    /// The notifications that they supersede were cancelled in the same commit, perhaps after this round published the cancellations. Those
    /// go first (`docs/promises.md`, 6). If the stream does not take them, the fan-outs wait.
    private func begin(_ claimed: [(notification: PushID, key: AppLane)], _ group: inout DiscardingTaskGroup) async throws {
        guard !claimed.isEmpty else { return }
        let superseding = try await pool.session { session in
            try WaitingWorkStore(session: session).superseding(claimed.map(\.notification))
        }
        for (notification, key) in claimed where !superseding.contains(notification) { begin(notification, key, &group) }
        guard !superseding.isEmpty else { return }
        guard try await cancellation.publishLeftOver() else {
            return try await pool.session { session in try WaitingWorkStore(session: session).release(superseding.sorted()) }
        }
        for (notification, key) in claimed where superseding.contains(notification) { begin(notification, key, &group) }
    }

    private func begin(_ notification: PushID, _ key: AppLane, _ group: inout DiscardingTaskGroup) {
        // This process still runs it: its lease ran out while it waited for the database.
        guard fanOuts.withLock({ $0.updateValue(key, forKey: notification) }) == nil else { return }
        group.addTask {
            await self.fanOut.run(notification)
            self.fanOuts.withLock { $0[notification] = nil }
            self.wakeUp.signal()
        }
    }
}

/// Fan-outs of other apps that found no place. One that runs gives its place up after a page, and waits for its next turn.
package final class FanOutTurns: Sendable {
    private let waiting = Mutex<[Lane: Set<AppSlug>]>([:])

    package init() {}

    func wait(_ lane: Lane, _ apps: Set<AppSlug>) { waiting.withLock { $0[lane] = apps } }

    func isOver(for key: AppLane) -> Bool { waiting.withLock { $0[key.lane]?.contains { $0 != key.app } ?? false } }
}

/// How many jobs of a lane are taken over at once: half as many after a statement that took too long, and twice as many after each success.
private final class RelaySizes: Sendable {
    private let sizes = Mutex<[Lane: Int]>([:])

    func size(of lane: Lane) -> Int { sizes.withLock { $0[lane] ?? .max } }

    func succeeded(_ lane: Lane) {
        sizes.withLock { sizes in
            guard let size = sizes[lane] else { return }
            sizes[lane] = size >= RelayWindow.maximum ? nil : size * 2
        }
    }

    func failed(_ lane: Lane, at size: Int) { sizes.withLock { $0[lane] = max(1, size / 2) } }
}
