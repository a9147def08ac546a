import Broker
import PushModel

/// Jobs that the broker has sent and the core has not begun, and which of them is begun next. `now` goes first, the other lanes take turns
/// (docs/promises.md, 9), and a lane gives nothing while as many of its deliveries are at work as it may have. The prefetch of each lane bounds what waits.
///
/// It also knows the apps that crowd a lane (docs/promises.md, 10): their pool is slow, and they hold half of what the lane may have.
struct Scheduler {
    /// Bytes of one portion: some hundred microseconds' work, after which a job of `now` may go.
    static let portionSize = 32_768
    /// Bytes that one delivery takes of a job, about.
    private static let deliverySize = 100

    private struct LaneShare: Hashable {
        let lane: Lane
        let app: ControlState.AppIndex
    }

    private let rules: CoreRules
    private let lanes: [String: Lane]
    private var lines: [Lane: FIFO<ReceivedMessage>] = [:]
    /// The next portion is of `bulk`, if something of it waits.
    private var isTurnOfBulk = false
    private var crowding: Set<LaneShare> = []
    /// Deliveries that a pool has had for long, when that was last measured. They take no room, so that the other apps of the lane go on.
    private var slow: [Lane: Int] = [:]

    init(rules: CoreRules) {
        self.rules = rules
        lanes = Dictionary(uniqueKeysWithValues: Lane.allCases.map { (rules.topology.jobQueue($0), $0) })
    }

    mutating func append(_ messages: [ReceivedMessage]) {
        for message in messages { lines[lanes[message.queue] ?? .bulk, default: FIFO()].append(message) }
    }

    /// - Returns: what waited.
    mutating func removeAll() -> [ReceivedMessage] {
        defer { lines = [:] }
        var all: [ReceivedMessage] = []
        for lane in Lane.allCases { while let next = lines[lane]?.popFirst() { all.append(next) } }
        return all
    }

    /// Deliveries of a lane that may be begun.
    /// - Parameter atWork: deliveries of jobs that are not settled.
    func room(_ lane: Lane, atWork: [Lane: Int]) -> Int {
        (rules.deliveries[lane] ?? 1) - atWork[lane, default: 0] + slow[lane, default: 0]
    }

    func hasWork(atWork: [Lane: Int]) -> Bool { lines.contains { !$1.isEmpty && room($0, atWork: atWork) > 0 } }

    /// - Returns: jobs of one lane, at least one; nil where nothing may go.
    mutating func next(atWork: [Lane: Int]) -> [ReceivedMessage]? {
        isTurnOfBulk.toggle()
        for lane in isTurnOfBulk ? [Lane.now, .bulk, .soon] : [.now, .soon, .bulk] {
            let room = room(lane, atWork: atWork)
            guard room > 0 else { continue }
            let portion = take(from: lane, bytes: min(Self.portionSize, room * Self.deliverySize))
            if !portion.isEmpty { return portion }
        }
        return nil
    }

    /// - Returns: at most so many bytes, or one job.
    private mutating func take(from lane: Lane, bytes: Int) -> [ReceivedMessage] {
        var portion: [ReceivedMessage] = []
        var left = bytes
        while let next = lines[lane]?.first, portion.isEmpty || next.body.count <= left {
            _ = lines[lane]?.popFirst()
            portion.append(next)
            left -= next.body.count
        }
        return portion
    }

    // MARK: Apps that crowd a lane

    func isCrowded(_ lane: Lane, by app: ControlState.AppIndex) -> Bool {
        !crowding.isEmpty && crowding.contains(LaneShare(lane: lane, app: app))
    }

    /// Finds out who crowds a lane, and what pools have had for long.
    mutating func measure(_ jobs: some Sequence<JobInProgress>, at now: Int64) {
        var held: [LaneShare: LaneUse] = [:]
        for job in jobs where !job.isStale {
            held[LaneShare(lane: job.job.lane, app: job.app), default: LaneUse()].add(
                deliveries: job.job.deliveries.count, isSlow: now - job.takenAt >= rules.crowdingPatience)
        }
        crowding.removeAll(keepingCapacity: true)
        slow.removeAll(keepingCapacity: true)
        for (share, use) in held {
            slow[share.lane, default: 0] += use.deliveries.slow
            let (jobs, deliveries) = (rules.prefetch[share.lane] ?? 1, rules.deliveries[share.lane] ?? 1)
            if use.jobs.isMost(of: jobs) || use.deliveries.isMost(of: deliveries) { crowding.insert(share) }
        }
    }
}

/// How much of a lane an app has at work, and how much of that its pool has had for long.
private struct LaneUse {
    struct Amount {
        var all = 0
        var slow = 0

        /// Half of what the lane may have, and half of that is slow.
        func isMost(of limit: Int) -> Bool {
            let half = max(1, limit / 2)
            return all >= half && slow * 2 >= half
        }
    }

    private(set) var jobs = Amount()
    private(set) var deliveries = Amount()

    mutating func add(deliveries count: Int, isSlow: Bool) {
        jobs.all += 1
        deliveries.all += count
        guard isSlow else { return }
        jobs.slow += 1
        deliveries.slow += count
    }
}
