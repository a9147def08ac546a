/// Names one connection of a pool; never used twice.
typealias ConnectionID = Int

/// Decides when to open connections, when to stop, and how newcomers are treated. Never acts: ``PoolRunner`` performs the returned actions.
struct PoolLifecycle {
    enum Action: Equatable {
        case dial(ConnectionID)
        /// Finish requests in flight, take no more, close.
        case drain(ConnectionID)
    }

    /// How newcomers are treated.
    enum Admission: Equatable, Sendable {
        case open
        case refusing(NotSentReason)
    }

    enum Phase: Equatable {
        case running
        /// No work, no connections.
        case idle
        case paused(reason: String, until: ContinuousClock.Instant)
        /// The pause is over: the next request decides.
        case probing(reason: String)
        case stopped
    }

    private struct Connection {
        var isUsable = false
        var isProven = false
        var isRetired = false
        let dialedAt: ContinuousClock.Instant
    }

    let rules: APNsPoolConfiguration
    private(set) var phase = Phase.idle
    /// How many requests came since the pool last had no connections for want of work.
    private var requests = 0
    private var size: PoolSize
    private var connections: [ConnectionID: Connection] = [:]
    private var nextID = 1
    private var backoff: ReconnectBackoff
    private var nextDial: ContinuousClock.Instant
    private var unreadySince: ContinuousClock.Instant?
    private var probes = 0
    private var breaker = ServerFaultBreaker()
    /// The answer to newcomers while the pool is paused.
    private var refusal = NotSentReason.poolPaused
    /// When a connection last turned out wedged; if a later one does so too, it is no accident.
    private var wedgedAt: ContinuousClock.Instant?
    /// A number in 0..<1, new each time.
    private let jitter: @Sendable () -> Double

    init(
        _ rules: APNsPoolConfiguration, now: ContinuousClock.Instant,
        jitter: @escaping @Sendable () -> Double = { Double.random(in: 0..<1) }
    ) {
        self.rules = rules
        size = PoolSize(rules)
        self.jitter = jitter
        backoff = ReconnectBackoff(base: rules.backoffBase, cap: rules.backoffCap)
        nextDial = now
    }

    // MARK: What happens

    /// Work has come. One request needs one connection: the others are opened when a second one comes.
    mutating func arrived(_ count: Int, now: ContinuousClock.Instant) {
        requests += count
        if phase == .idle { wake(now) }
    }

    mutating func tick(now: ContinuousClock.Instant, lastWork: ContinuousClock.Instant) -> [Action] {
        if case .paused(let reason, let until) = phase, now >= until { phase = .probing(reason: reason) }
        if phase == .running, now >= lastWork + rules.idleLimit { return drainAll(into: .idle) }
        return dialIfDue(now)
    }

    /// Requests wait and no connection can take them.
    mutating func workWaits(now: ContinuousClock.Instant) -> [Action] {
        switch phase {
        case .idle: wake(now)
        case .probing where unreadySince == nil && usableConnections == 0:
            unreadySince = now
        default: break
        }
        return dialIfDue(now)
    }

    mutating func opened(_ id: ConnectionID) -> [Action] {
        guard wantsConnections, connections[id]?.isRetired == false else { return [.drain(id)] }
        connections[id]?.isUsable = true
        unreadySince = nil
        return []
    }

    /// APNs has accepted the credential on this connection.
    mutating func proven(_ id: ConnectionID) {
        guard connections[id]?.isRetired == false else { return }
        connections[id]?.isProven = true
        wedgedAt = nil
        breaker.served()
        probes = 0
        if case .probing = phase { phase = .running }
    }

    /// The connection takes no more requests, for a reason that may hold for the next one too.
    mutating func retiring(_ id: ConnectionID, _ cause: RetireCause, now: ContinuousClock.Instant) -> [Action] {
        guard let connection = connections[id], !connection.isRetired else { return [] }
        connections[id]?.isRetired = true
        noteUnready(now)
        switch cause {
        case .credential(let reason): return pause(reason, now)
        case .wedged(let reason):
            if let wedgedAt, connection.dialedAt >= wedgedAt { return pause(reason, now) }
            if wedgedAt == nil { wedgedAt = now }
        case .answered(let status, let reason) where breaker.counts(status, reason):
            breaker.failed(wasProven: connection.isProven)
            if case .probing = phase { return pause(reason ?? "\(status)", now, .unavailable) }
            if breaker.isOpen { return pause(reason ?? "\(status)", now, .unavailable) }
        default: break
        }
        scheduleReplacement(of: connection, now)
        return dialIfDue(now)
    }

    /// The connection is gone, or was never made.
    mutating func closed(_ id: ConnectionID, now: ContinuousClock.Instant) -> [Action] {
        guard let connection = connections.removeValue(forKey: id) else { return [] }
        noteUnready(now)
        if !connection.isRetired { scheduleReplacement(of: connection, now) }
        return dialIfDue(now)
    }

    /// How full the usable connections are: one more may be opened, or one closed.
    mutating func observe(_ load: PoolSize.Load, now: ContinuousClock.Instant) -> [Action] {
        guard phase == .running else { return [] }
        let live = connections.values.filter { !$0.isRetired }
        let isSettled = live.count == wantedConnections && live.allSatisfy { $0.isUsable && $0.isProven }
        switch size.observe(load, isSettled: isSettled, now: now) {
        case .grow?: return dialIfDue(now)
        case .shrink?:
            // The youngest: Apple advises to keep connections open for long.
            guard let id = usableIDs.max() else { return [] }
            connections[id]?.isRetired = true
            return [.drain(id)]
        case nil: return []
        }
    }

    mutating func shutDown() -> [Action] {
        drainAll(into: .stopped)
    }

    // MARK: What follows from it

    var usableConnections: Int { connections.values.count { $0.isUsable && !$0.isRetired } }
    var usableIDs: Set<ConnectionID> { Set(connections.filter { $0.value.isUsable && !$0.value.isRetired }.keys) }

    func admission(now: ContinuousClock.Instant) -> Admission {
        switch phase {
        case .stopped: .refusing(.shuttingDown)
        case .paused: .refusing(refusal)
        case .idle: .open
        case .running, .probing:
            if let unreadySince, now >= unreadySince + rules.patience { .refusing(.notConnected) } else { .open }
        }
    }

    var state: APNsPoolState {
        switch phase {
        case .running: usableConnections > 0 ? .ready : .connecting
        case .idle: .idle
        case .paused(let reason, _), .probing(let reason):
            refusal == .unavailable ? .unavailable(reason: reason) : .paused(reason: reason)
        case .stopped: .closed
        }
    }

    /// When to call `tick` next, if no event comes before.
    func nextWake(now: ContinuousClock.Instant, lastWork: ContinuousClock.Instant) -> ContinuousClock.Instant? {
        var times: [ContinuousClock.Instant] = []
        if case .paused(_, let until) = phase { times.append(until) }
        if missingConnections > 0 { times.append(max(nextDial, now)) }
        if let unreadySince, case .open = admission(now: now), wantsConnections { times.append(unreadySince + rules.patience) }
        if phase == .running { times.append(max(now, lastWork + rules.idleLimit)) }
        if phase == .running, size.isAboveMinimum { times.append(now + Self.lookInterval) }
        return times.min()
    }

    // MARK: How

    /// How often the load is checked while a connection could be closed.
    private static let lookInterval: Duration = .seconds(5)

    private var wantsConnections: Bool {
        switch phase {
        case .running, .probing: true
        case .idle, .paused, .stopped: false
        }
    }

    private var wantedConnections: Int { requests > 1 ? size.wanted : 1 }

    private mutating func wake(_ now: ContinuousClock.Instant) {
        phase = .running
        unreadySince = now
    }

    private var missingConnections: Int {
        let live = connections.values.count { !$0.isRetired }
        switch phase {
        case .running: return max(0, wantedConnections - live)
        // Only for a request: `unreadySince` marks that one waits.
        case .probing: return unreadySince == nil ? 0 : max(0, 1 - live)
        case .idle, .paused, .stopped: return 0
        }
    }

    private mutating func dialIfDue(_ now: ContinuousClock.Instant) -> [Action] {
        var actions: [Action] = []
        while missingConnections > 0, now >= nextDial {
            let id = nextID
            nextID += 1
            connections[id] = Connection(dialedAt: now)
            nextDial = now + rules.stagger
            actions.append(.dial(id))
        }
        return actions
    }

    /// Replaces a connection at once after one that served for a while; soon after one that served and whose end does not concern the next;
    /// else ever later, so that failing to connect does not become an attack.
    private mutating func scheduleReplacement(of connection: Connection, _ now: ContinuousClock.Instant) {
        if connection.isProven { backoff.reset() }
        if connection.isProven, now - connection.dialedAt >= rules.stableAge {
            nextDial = min(nextDial, now + rules.stagger)
        } else {
            nextDial = max(nextDial, now + backoff.next(random: jitter()))
        }
    }

    private mutating func noteUnready(_ now: ContinuousClock.Instant) {
        guard usableConnections == 0, unreadySince == nil, phase == .running else { return }
        unreadySince = now
    }

    private mutating func pause(
        _ reason: String, _ now: ContinuousClock.Instant, _ refusal: NotSentReason = .poolPaused
    ) -> [Action] {
        self.refusal = refusal
        let base = refusal == .unavailable ? rules.breakerBase : rules.probeBase
        let bound = ReconnectBackoff.bound(base, rules.probeCap, probes)
        probes += 1
        // At least half of it: a probe is never early, only spread.
        let delay = bound * (0.5 + jitter() / 2)
        unreadySince = nil
        nextDial = now
        return drainAll(into: .paused(reason: reason, until: now + delay))
    }

    private mutating func drainAll(into phase: Phase) -> [Action] {
        self.phase = phase
        size.reset()
        if phase == .idle {
            unreadySince = nil
            requests = 0
        }
        let live = connections.filter { !$0.value.isRetired }.keys.sorted()
        for id in live { connections[id]?.isRetired = true }
        return live.map { .drain($0) }
    }
}

/// Distinguishes APNs' own outage from one broken connection (docs/apns.md, Answers): a 5xx replaces its connection. If several connections
/// in a row get only 5xx, the pool stops and probes with one request (Apple asks for 15 minutes).
struct ServerFaultBreaker: Sendable {
    /// Connections in a row, of which only the first had ever served.
    private static let limit = 3

    private var connections = 0

    /// Whether an answer means that APNs, and not this one server, has a fault.
    func counts(_ status: Int, _ reason: String?) -> Bool {
        status >= 500 && reason != APNsReason.shutdown.rawValue
    }

    /// A connection was replaced for a 5xx.
    /// - Parameter wasProven: it had served before, so it may be the only broken one.
    mutating func failed(wasProven: Bool) {
        connections = wasProven ? 1 : connections + 1
    }

    /// A connection got an answer that is none of APNs' faults.
    mutating func served() {
        connections = 0
    }

    var isOpen: Bool { connections >= Self.limit }
}

/// Exponential delays with full jitter: between zero and a bound that doubles, so that many clients do not come back together.
struct ReconnectBackoff {
    let base: Duration
    let cap: Duration
    private(set) var failures = 0

    init(base: Duration, cap: Duration) {
        self.base = base
        self.cap = cap
    }

    /// - Parameter random: A number in 0..<1.
    mutating func next(random: Double) -> Duration {
        let bound = Self.bound(base, cap, failures)
        failures += 1
        return bound * random
    }

    mutating func reset() {
        failures = 0
    }

    static func bound(_ base: Duration, _ cap: Duration, _ failures: Int) -> Duration {
        min(cap, base * Double(sign: .plus, exponent: min(failures, 30), significand: 1))
    }
}

/// The state of a pool, for readiness and alarms. A caller may submit in any state: batches that cannot be sent come back at once.
package enum APNsPoolState: Equatable, Sendable {
    /// There is work and no connection; trying.
    case connecting
    /// At least one connection can be used.
    case ready
    /// No work yet, or for long, so there is no connection; the next batch opens one.
    case idle
    /// APNs refuses the credential, for its reason. Probed again and again, ever more rarely, with one connection and one request.
    case paused(reason: String)
    /// The breaker is open: APNs answered connection after connection with 5xx. Probed as a paused pool is.
    case unavailable(reason: String)
    case closed

    /// The state in metric labels: from a closed set.
    package var label: String {
        switch self {
        case .connecting: "connecting"
        case .ready: "ready"
        case .idle: "idle"
        case .paused: "paused"
        case .unavailable: "unavailable"
        case .closed: "closed"
        }
    }
}

/// An event for logs and metrics. Never a token, an id or a payload.
package enum APNsPoolEvent: Equatable, Sendable {
    case stateChanged(APNsPoolState)
    case connectionOpened(address: String)
    /// The first answer that shows that APNs accepts the credential.
    case connectionProven(address: String)
    /// No connection was made; `reason` names the step that failed.
    case connectionFailed(address: String?, reason: String)
    /// The connection takes no new requests; a replacement is on its way. `reason` is APNs' or ours.
    case connectionRetired(address: String, reason: String)
    case connectionClosed(address: String, reason: String)
}
