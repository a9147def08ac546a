import PushModel

@testable import APNs
@testable import Dispatcher

/// A pool without threads, sockets and clocks. Its decisions come from the real types (``PoolLifecycle``, ``ConnectionState``,
/// ``LaneQueue``, ``BatchLedger``), and act on an APNs with random behaviour.
struct SimulatedPool {
    /// One request between HTTP/2 and its answer.
    struct InFlight {
        let stream: Int
        let share: Share
        /// UNIX milliseconds.
        let sentAt: Int64
        let deadline: ContinuousClock.Instant
        /// The kernel has all of it, so APNs may act on it. Until then a part of it waits for APNs' window.
        var hasLeft = false

        var request: APNsRequest { share.batch.requests[share.requests.lowerBound] }
    }

    struct Connection {
        let id: ConnectionID
        var state: ConnectionState
        var inFlight: [InFlight] = []
        var nextStream = 1
        /// The last limit that APNs advertised.
        var streamLimit = 1
        /// The bytes that APNs takes.
        var window = 65_535
        /// APNs has answered a request whose token it took.
        var knowsUs = false
        var hasGoneAway = false

        var room: (now: LaneQueue.Room, others: LaneQueue.Room) {
            state.room(window: window, pending: inFlight.reduce(0) { $0 + ($1.hasLeft ? 0 : $1.share.batch.payload.count) })
        }
    }

    static let rules = {
        var rules = APNsPoolConfiguration()
        rules.maximumConnections = 4
        rules.shrinkAfter = .seconds(20)
        return rules
    }()
    /// Milliseconds.
    static let requestTimeout: Int64 = 15_000
    private static let maximumStreams = 8

    /// The apps that it serves.
    let apps: Set<AppSlug>
    /// Its credential was replaced.
    private(set) var isRetired = false
    private(set) var mostConnections = 0
    /// How often it closed a connection because fewer sufficed.
    private(set) var shrinkings = 0
    private var lastDial: Int64?
    /// Breaches of the pool's rules.
    var breaches: [String] = []

    var lifecycle: PoolLifecycle
    var queue = LaneQueue(weights: LaneQueue.Weights(), maximumRequests: 40)
    /// Being dialled.
    var dialling: [ConnectionID] = []
    var connections: [Connection] = []
    var finished: [APNsFinishedBatch] = []
    var lastWork: ContinuousClock.Instant
    private let base: ContinuousClock.Instant
    private let wallBase: Int64

    init(_ plan: CredentialPlan.Pool, jitter: @escaping @Sendable () -> Double, wall: Int64) {
        apps = Set(plan.entry.apps)
        base = .now
        wallBase = wall
        lastWork = base
        lifecycle = PoolLifecycle(Self.rules, now: base, jitter: jitter)
    }

    func instant(_ wall: Int64) -> ContinuousClock.Instant { base + .milliseconds(wall - wallBase) }

    var inFlightCount: Int { connections.reduce(0) { $0 + $1.inFlight.count } }
    var isEmpty: Bool { queue.isEmpty && inFlightCount == 0 && finished.isEmpty }
    /// True if no event can change it any more.
    var isGone: Bool { isRetired && isEmpty && connections.isEmpty && dialling.isEmpty && breaches.isEmpty }
    /// Every connection that takes requests is known to APNs.
    var isSettled: Bool { dialling.isEmpty && connections.allSatisfy { $0.state.isOpen && $0.state.isProven } }

    // MARK: What the core does

    mutating func submit(_ batch: APNsBatch, at wall: Int64) {
        let now = instant(wall)
        let share = Share(ledger: BatchLedger(batch), requests: batch.requests.indices, queuedAt: now)
        if case .refusing(let reason) = lifecycle.admission(now: now) { return settle(share, .notSent(reason)) }
        guard queue.append(share) else { return settle(share, .notSent(.queueFull)) }
        lifecycle.arrived(batch.requests.count, now: now)
        lastWork = now
    }

    mutating func retire(at wall: Int64) {
        isRetired = true
        shutDown(at: wall)
    }

    mutating func shutDown(at wall: Int64) {
        perform(lifecycle.shutDown(), at: wall)
        lookAfterQueue(at: wall)
    }

    // MARK: What the pool's loop does

    mutating func tick(at wall: Int64) {
        let now = instant(wall)
        perform(lifecycle.tick(now: now, lastWork: lastWork), at: wall)
        for id in connections.map(\.id) {
            expire(id, at: wall)
            guard let index = connections.firstIndex(where: { $0.id == id }) else { continue }
            perform(connections[index].state.tick(now: now), on: id, at: wall)
        }
        lookAfterQueue(at: wall)
    }

    mutating func lookAfterQueue(at wall: Int64) {
        let now = instant(wall)
        if case .refusing(let reason) = lifecycle.admission(now: now) {
            for share in queue.remove(where: { _ in true }) { settle(share, .notSent(reason)) }
        }
        if !queue.isEmpty, lifecycle.usableConnections == 0 { perform(lifecycle.workWaits(now: now), at: wall) }
        for share in queue.remove(where: { wall >= $0.batch.expiresAt }) { settle(share, .stopped(.expired)) }
        lookAtLoad(at: wall)
    }

    /// One more connection while streams are used up, one less when that would do.
    private mutating func lookAtLoad(at wall: Int64) {
        let usable = lifecycle.usableIDs
        mostConnections = max(mostConnections, usable.count)
        if usable.count > Self.rules.maximumConnections { breaches.append("\(usable.count) connections") }
        var load = PoolSize.Load(connections: usable.count, openStreams: 0, streamLimit: 0, requestsWait: !queue.isEmpty)
        for connection in connections where usable.contains(connection.id) {
            let limit = min(connection.streamLimit, Self.maximumStreams)
            load.openStreams += connection.room.others.isFull ? limit : connection.inFlight.count
            load.streamLimit += limit
        }
        let actions = lifecycle.observe(load, now: instant(wall))
        for case .drain in actions {
            shrinkings += 1
            if load.requestsWait || usable.count <= Self.rules.connections { breaches.append("let a connection go that was needed") }
        }
        perform(actions, at: wall)
    }

    private mutating func perform(_ actions: [PoolLifecycle.Action], at wall: Int64) {
        for action in actions {
            switch action {
            case .dial(let id):
                if let lastDial, instant(wall) < instant(lastDial) + Self.rules.stagger { breaches.append("two dials at once") }
                if isRetired { breaches.append("a dial after its end") }
                lastDial = wall
                dialling.append(id)
            case .drain(let id):
                guard let index = connections.firstIndex(where: { $0.id == id }) else { continue }
                perform(connections[index].state.drain(), on: id, at: wall)
            }
        }
    }

    // MARK: What connections do

    mutating func opened(_ id: ConnectionID, at wall: Int64) {
        let now = instant(wall)
        connections.append(
            Connection(
                id: id,
                state: ConnectionState(
                    ConnectionState.Rules(
                        maximumStreams: Self.maximumStreams, pingAfter: .seconds(30), pingTimeout: .seconds(10),
                        settingsTimeout: .seconds(10),
                        maximumAge: .seconds(86_400), maximumRequests: 1 << 29), now: now)))
    }

    mutating func failed(_ id: ConnectionID, at wall: Int64) {
        perform(lifecycle.closed(id, now: instant(wall)), at: wall)
    }

    mutating func perform(_ action: ConnectionState.Action?, on id: ConnectionID, at wall: Int64) {
        if let action { perform([action], on: id, at: wall) }
    }

    mutating func perform(_ actions: [ConnectionState.Action], on id: ConnectionID, at wall: Int64) {
        let now = instant(wall)
        for action in actions {
            switch action {
            case .becameUsable: perform(lifecycle.opened(id), at: wall)
            case .becameProven: lifecycle.proven(id)
            case .sendPing:
                guard let index = connections.firstIndex(where: { $0.id == id }) else { continue }
                connections[index].state.received(now: now)
                connections[index].state.pongReceived()
            case .retire(let cause): perform(lifecycle.retiring(id, cause, now: now), at: wall)
            case .close: close(id, at: wall)
            }
        }
    }

    mutating func submitted(_ share: Share, stream: Int, on place: Int, at wall: Int64) {
        let deadline = instant(wall) + .milliseconds(Self.requestTimeout)
        connections[place].inFlight.append(InFlight(stream: stream, share: share, sentAt: wall, deadline: deadline))
    }

    /// Sent requests are unknown; another connection may have the others.
    private mutating func close(_ id: ConnectionID, at wall: Int64) {
        guard let index = connections.firstIndex(where: { $0.id == id }) else { return }
        let connection = connections.remove(at: index)
        for entry in connection.inFlight.reversed() {
            if entry.hasLeft { settle(entry.share, .unknown(.connectionLost)) } else { giveBack(entry, from: id, isGone: true) }
        }
        perform(lifecycle.closed(id, now: instant(wall)), at: wall)
    }

    /// Requests that timed out. APNs cannot have acted on those that never left.
    private mutating func expire(_ id: ConnectionID, at wall: Int64) {
        for entry in connections.first(where: { $0.id == id })?.inFlight ?? [] where instant(wall) >= entry.deadline {
            guard let place = connections.firstIndex(where: { $0.id == id }) else { return }
            connections[place].inFlight.removeAll { $0.stream == entry.stream }
            let isExpired = wall >= entry.share.batch.expiresAt
            settle(entry.share, entry.hasLeft ? .unknown(.timedOut) : isExpired ? .stopped(.expired) : .notSent(.deadline))
            perform(connections[place].state.timedOut(), on: id, at: wall)
            guard let left = connections.firstIndex(where: { $0.id == id }) else { return }
            perform(connections[left].state.streamEnded(), on: id, at: wall)
        }
    }

    // MARK: Answers

    /// Requests that left and came back unprocessed since this was last emptied.
    var returned: [PushID] = []

    /// - Parameter isGone: The connection takes nothing more, and the lifecycle does not know it yet.
    mutating func giveBack(_ entry: InFlight, from id: ConnectionID, isGone: Bool = false) {
        if entry.hasLeft { returned.append(entry.request.id) }
        var share = entry.share
        share.refusedBy.append(id)
        let usable = isGone ? lifecycle.usableIDs.subtracting([id]) : lifecycle.usableIDs
        if share.mayBeResent(after: id, usable: usable) { queue.putBack(share) } else { settle(share, .notSent(.refused)) }
    }

    mutating func settle(_ share: Share, _ result: APNsAnswer.Result) {
        if let batch = share.settle(result) { finished.append(batch) }
    }
}
