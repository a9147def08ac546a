import Broker
import PushModel

/// The one queue between the broker and the pools: jobs that the broker has sent and the core has not begun, one line for each lane and
/// app. It has nothing to do with scheduled notifications, which wait in the token service's `fan_outs`.
///
/// `now` goes first, the other lanes take turns (docs/promises.md, 9). Within a lane the apps take turns. Each may have as much in progress
/// as is still free, in jobs and in deliveries: a single app gets half of the lane's limit, and a newcomer always finds room
/// (docs/promises.md, 10; Choudhury and Hahne, Dynamic Queue Length Thresholds, 1998). The prefetch of each lane bounds the waiting jobs.
struct Scheduler {
    /// Bytes of one portion: some hundred microseconds' work, after which a job of `now` may go.
    static let portionSize = 32_768
    /// Bytes that one delivery takes of a job, about.
    private static let deliverySize = 100

    /// Jobs of one lane and app.
    struct Portion {
        let appLane: AppLaneIndex
        let messages: [ReceivedMessage]
    }

    /// The waiting jobs of one lane.
    private struct Waiting {
        /// The lines of waiting messages, by the app's number.
        private var queues: [FIFO<ReceivedMessage>] = []
        /// Apps with waiting jobs; the first one has its turn.
        private(set) var turns = FIFO<ControlState.AppIndex>()
        private(set) var count = 0

        func count(of app: ControlState.AppIndex) -> Int {
            let place = app.place
            return place < queues.count ? queues[place].count : 0
        }

        mutating func append(_ message: ReceivedMessage, of app: ControlState.AppIndex) {
            let place = app.place
            while queues.count <= place { queues.append(FIFO()) }
            if queues[place].isEmpty { turns.append(app) }
            queues[place].append(message)
            count += 1
        }

        mutating func passTurn() { if let app = turns.popFirst() { turns.append(app) } }

        /// - Returns: at most `jobs` jobs of `bytes` bytes of the app whose turn it is, and one job at least. Its turn is over then.
        mutating func takeTurn(bytes: Int, jobs: Int) -> [ReceivedMessage] {
            guard let app = turns.popFirst() else { return [] }
            let place = app.place
            var portion: [ReceivedMessage] = []
            var left = bytes
            while let next = queues[place].first, portion.isEmpty || (next.body.count <= left && portion.count < jobs) {
                _ = queues[place].popFirst()
                portion.append(next)
                left -= next.body.count
            }
            count -= portion.count
            if !queues[place].isEmpty { turns.append(app) }
            return portion
        }
    }

    private let rules: CoreRules
    private let lanes: [(queue: String, lane: Lane)]
    private var waiting = Lanes(Waiting())
    /// The next portion is of `bulk`, if a job of it may begin.
    private var isTurnOfBulk = false
    private var slow: Set<AppLaneIndex> = []

    init(rules: CoreRules) {
        self.rules = rules
        lanes = Lane.allCases.map { (rules.topology.jobQueue($0), $0) }
    }

    /// - Parameter app: The app in the message's header, because the job is not decoded.
    mutating func append(_ message: ReceivedMessage, of app: ControlState.AppIndex) {
        waiting[lane(of: message)].append(message, of: app)
    }

    /// The lane of its queue.
    func lane(of message: ReceivedMessage) -> Lane { lanes.first { $0.queue == message.queue }?.lane ?? .bulk }

    /// - Returns: the waiting jobs.
    mutating func removeAll(of lane: Lane) -> [ReceivedMessage] {
        var all: [ReceivedMessage] = []
        while waiting[lane].count > 0 { all += waiting[lane].takeTurn(bytes: .max, jobs: .max) }
        return all
    }

    func hasWork(_ work: WorkLoad) -> Bool {
        Lane.allCases.contains { lane in
            let turns = waiting[lane].turns
            return (0..<turns.count).contains { mayBegin(AppLaneIndex(lane: lane, app: turns[$0]), work) }
        }
    }

    /// - Parameter work: jobs in progress.
    /// - Returns: at least one job; nil if none may begin.
    mutating func next(_ work: WorkLoad) -> Portion? {
        isTurnOfBulk.toggle()
        for lane in isTurnOfBulk ? [Lane.now, .bulk, .soon] : [.now, .soon, .bulk] {
            for _ in 0..<waiting[lane].turns.count {
                guard let app = waiting[lane].turns.first else { break }
                let appLane = AppLaneIndex(lane: lane, app: app)
                if mayBegin(appLane, work) {
                    let room = room(appLane, work)
                    let bytes = min(Self.portionSize, room.deliveries * Self.deliverySize)
                    return Portion(appLane: appLane, messages: waiting[lane].takeTurn(bytes: bytes, jobs: room.jobs))
                }
                waiting[lane].passTurn()
            }
        }
        return nil
    }

    /// How much of an app may begin now. Each begun job is one less that is free and one more that the app has, hence the half.
    private func room(_ appLane: AppLaneIndex, _ work: WorkLoad) -> WorkLoad.Amount {
        let (all, own) = (work[appLane.lane], work[appLane])
        let jobs = (rules.prefetch[appLane.lane] ?? 1) - all.jobs - own.jobs
        let deliveries = (rules.deliveries[appLane.lane] ?? 1) - all.deliveries - own.deliveries
        return WorkLoad.Amount(jobs: (jobs + 1) / 2, deliveries: (deliveries + 1) / 2)
    }

    private func mayBegin(_ appLane: AppLaneIndex, _ work: WorkLoad) -> Bool {
        let room = room(appLane, work)
        return room.jobs > 0 && room.deliveries > 0 || isSlow(appLane)
    }

    // MARK: Slow apps

    /// The app's newcomers wait in a delayed queue.
    func isSlow(_ appLane: AppLaneIndex) -> Bool { !slow.isEmpty && slow.contains(appLane) }

    /// Finds the apps whose pool is slow and that hold more of a lane's prefetch than is left for the others.
    mutating func findSlow(_ jobs: some Sequence<JobInProgress>, _ work: WorkLoad, at now: Int64) {
        var old: [AppLaneIndex: Int] = [:]
        // A job that waits here for the control stream or for room for outcomes says nothing of its pool.
        for job in jobs where !job.isStale && job.waiting.isEmpty && now - job.handedOverAt >= rules.slowAfter {
            old[job.appLane, default: 0] += 1
        }
        slow = Set(
            old.lazy.filter { [self] appLane, count in
                let held = work[appLane].jobs + waiting[appLane.lane].count(of: appLane.app)
                let left = (rules.prefetch[appLane.lane] ?? 1) - work[appLane.lane].jobs - waiting[appLane.lane].count
                return count * 2 >= work[appLane].jobs && held > left
            }.map(\.key))
    }
}

/// The jobs of one app in one lane.
struct AppLaneIndex: Hashable {
    let lane: Lane
    let app: ControlState.AppIndex
}

/// How much is begun and not settled: of each lane, and of each app in it.
struct WorkLoad {
    struct Amount: Equatable {
        var jobs = 0
        var deliveries = 0

        fileprivate mutating func add(jobs: Int, deliveries: Int) {
            self.jobs += jobs
            self.deliveries += deliveries
        }
    }

    private(set) var lanes = Lanes(Amount())
    /// The work of each lane, by the app's number.
    private var apps = Lanes([Amount]())

    subscript(_ lane: Lane) -> Amount { lanes[lane] }
    subscript(_ appLane: AppLaneIndex) -> Amount {
        let apps = apps[appLane.lane]
        let place = appLane.app.place
        return place < apps.count ? apps[place] : Amount()
    }

    mutating func began(_ appLane: AppLaneIndex, deliveries: Int) { change(appLane, jobs: 1, deliveries: deliveries) }

    mutating func settled(_ appLane: AppLaneIndex, deliveries: Int) { change(appLane, jobs: -1, deliveries: -deliveries) }

    private mutating func change(_ appLane: AppLaneIndex, jobs: Int, deliveries: Int) {
        let place = appLane.app.place
        while apps[appLane.lane].count <= place { apps[appLane.lane].append(Amount()) }
        lanes[appLane.lane].add(jobs: jobs, deliveries: deliveries)
        apps[appLane.lane][place].add(jobs: jobs, deliveries: deliveries)
    }
}

extension ControlState.AppIndex {
    /// The app's place in arrays by app: the greatest number, shared by all unknown apps, comes first.
    fileprivate var place: Int { Int(self &+ 1) }
}
