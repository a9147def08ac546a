/// Decides for one connection how many streams it may use, and when to ping, to retire and to close. Never acts: the loop performs the
/// returned actions. Knows no socket, no stream and no batch.
struct ConnectionState {
    struct Rules: Sendable {
        var maximumStreams: Int
        var pingAfter: Duration
        var pingTimeout: Duration
        var settingsTimeout: Duration
        var maximumAge: Duration
        var maximumRequests: Int
        /// Each request that timed out or was reset adds a hundred, each refused one adds one, as does a 403 before the first accepted one,
        /// and each other answer subtracts one: three in a row retire the connection, and so does one in a hundred for long (docs/apns.md,
        /// Answers).
        var faultScore = 300

        /// An age up to a tenth younger by chance, so that connections opened together are not replaced together.
        static func age(upTo maximum: Duration) -> Duration { maximum * Double.random(in: 0.9...1) }
    }

    enum Action: Equatable {
        /// SETTINGS came: requests may be taken.
        case becameUsable
        /// The first authenticated answer.
        case becameProven
        case sendPing
        /// Take no new requests; the pool must know.
        case retire(RetireCause)
        case close(CloseCause)
    }

    private enum Phase: Equatable { case awaitingSettings, open, draining, closed }

    private let rules: Rules
    private var phase = Phase.awaitingSettings
    private let connectedAt: ContinuousClock.Instant
    /// The time of the last call that told it.
    private var now: ContinuousClock.Instant
    private(set) var lastRead: ContinuousClock.Instant
    private var pingSentAt: ContinuousClock.Instant?
    /// The peer's limit, if it is not above our own.
    private(set) var streamLimit = 1
    private(set) var inFlight = 0
    private(set) var requests = 0
    private(set) var isProven = false
    private var faultScore = 0
    private var lastFault: ContinuousClock.Instant?
    /// Since when the peer allows no stream.
    private var closedSince: ContinuousClock.Instant?
    /// The most that APNs' window has held: at first RFC 9113's 65,535 bytes (section 6.9.2).
    private var largestWindow = 65_535

    /// How long another connection is the better choice after a fault. Then one request may find out: only answers lower the score.
    private static let avoidance: Duration = .seconds(30)

    /// About as much as one output holds with its headers.
    private static let turn = LaneQueue.Room(requests: 256, bytes: 65_536)

    init(_ rules: Rules, now: ContinuousClock.Instant) {
        self.rules = rules
        connectedAt = now
        lastRead = now
        self.now = now
    }

    /// How many requests may be handed to HTTP/2 now. One until APNs has accepted our token (docs/apns.md, Streams).
    var freeStreams: Int {
        guard phase == .open else { return 0 }
        return max(0, min(streamLimit, isProven ? .max : 1) - inFlight)
    }

    /// Streams kept free for the `now` lane: a sixteenth, none while there are few or only the first request may go.
    var reservedForNow: Int { isProven ? streamLimit / 16 : 0 }

    /// What may be taken, for the lane `now` and for the others. It is no more than leaves at once: a request that waits in HTTP/2 is in
    /// the way of `now`. An eighth of the window is kept for `now`, as streams are.
    /// - Parameter pending: the bytes of submitted requests that have not left.
    func room(window: Int, pending: Int) -> (now: LaneQueue.Room, others: LaneQueue.Room) {
        func room(_ requests: Int, _ bytes: Int) -> LaneQueue.Room {
            LaneQueue.Room(requests: min(requests, Self.turn.requests), bytes: min(bytes, Self.turn.bytes) - pending)
        }
        let free = freeStreams
        return (room(free, window), room(free - reservedForNow, window - largestWindow / 8))
    }

    /// APNs has reset or not answered requests lately, or accepted none: another connection is the better choice.
    func isFaulty(at now: ContinuousClock.Instant) -> Bool {
        guard faultScore > 0, let lastFault else { return false }
        return now < lastFault + Self.avoidance
    }

    var isOpen: Bool { phase == .open }
    var isClosed: Bool { phase == .closed }

    // MARK: What the peer does

    /// Any bytes at all: the peer lives.
    /// - Parameter window: the bytes that it takes now.
    mutating func received(now: ContinuousClock.Instant, window: Int = 0) {
        self.now = now
        lastRead = now
        largestWindow = max(largestWindow, window)
    }

    mutating func pongReceived() { pingSentAt = nil }

    /// SETTINGS, each time they come: up and down, at once.
    mutating func settings(maximumStreams: Int) -> Action? {
        streamLimit = min(maximumStreams, max(1, rules.maximumStreams))
        closedSince = streamLimit > 0 ? nil : closedSince ?? now
        guard phase == .awaitingSettings else { return nil }
        phase = .open
        return .becameUsable
    }

    mutating func goAway(reason: String?) -> Action? {
        let reaction = reason.map { APNsMeaning(status: 0, reason: $0).reaction }
        switch (reason, reaction) {
        case (let reason?, .pausePool): return retire(.credential(reason: reason))
        case (let reason?, .replaceForToken): return retire(.wedged(reason: reason))
        default: return retire(.goAway(reason: reason))
        }
    }

    /// The handshake succeeded, and then the peer refused our certificate: TLS 1.3 reports that after the handshake.
    mutating func certificateRefused(_ what: String) -> [Action] {
        guard phase == .awaitingSettings else { return connectionLost(what).map { [$0] } ?? [] }
        return [retire(.credential(reason: RetireCause.certificateRefused)), close(.lost(what))].compactMap(\.self)
    }

    mutating func connectionLost(_ what: String) -> Action? {
        // If it is retired and fully answered, the peer only closed first.
        close(phase == .draining && inFlight == 0 ? .drained : .lost(what))
    }

    /// HTTP/2's library cannot go on, as a rule for want of memory: neither the peer nor the request is at fault.
    mutating func libraryFailed(_ what: String) -> Action? {
        close(phase == .draining && inFlight == 0 ? .drained : .library(what))
    }

    /// The library took no further request; the requests that it has may still be answered.
    mutating func libraryRefused(_ what: String) -> [Action] {
        [retire(.library(what)), closeIfDrained()].compactMap(\.self)
    }

    // MARK: Requests

    mutating func requestSubmitted() {
        inFlight += 1
        requests += 1
    }

    /// A stream has ended: once for each submitted request, after the call with its result.
    mutating func streamEnded() -> Action? {
        inFlight -= 1
        return closeIfDrained()
    }

    /// The cheap path for the most frequent answer.
    mutating func accepted() -> Action? {
        if faultScore > 0 { faultScore -= 1 }
        return isProven ? nil : prove()
    }

    mutating func answered(status: Int, reason: String?) -> [Action] {
        let meaning = APNsMeaning(status: status, reason: reason)
        let isUseless = !isProven && !meaning.isAuthenticated
        if faultScore > 0, !isUseless { faultScore -= 1 }
        var actions: [Action] = []
        if meaning.isAuthenticated, meaning.reaction == .keep, !isProven, let action = prove() { actions.append(action) }
        let reason = reason ?? "\(status)"
        switch meaning.reaction {
        case .keep:
            // It counts as little as a refused stream: the request itself may be at fault.
            if isUseless { fault(1, .answered(status: status, reason: reason)).map { actions.append($0) } }
        case .retire: retire(.answered(status: status, reason: reason)).map { actions.append($0) }
        case .replaceForToken: retire(.wedged(reason: reason)).map { actions.append($0) }
        case .pausePool: retire(.credential(reason: reason)).map { actions.append($0) }
        }
        return actions
    }

    /// Our own key fails: no connection would do better.
    mutating func cannotSign(_ why: String) -> Action? { retire(.credential(reason: why)) }

    mutating func timedOut() -> Action? { fault(100, .timeouts) }

    /// RST_STREAM instead of an answer. A few refusals are no fault: they follow a stream limit that falls.
    mutating func streamReset(isRefusal: Bool) -> Action? { fault(isRefusal ? 1 : 100, .resets) }

    private mutating func fault(_ weight: Int, _ cause: RetireCause) -> Action? {
        faultScore += weight
        lastFault = now
        return faultScore >= rules.faultScore ? retire(cause) : nil
    }

    // MARK: Time, and the pool

    mutating func tick(now: ContinuousClock.Instant) -> [Action] {
        self.now = now
        var actions: [Action] = []
        switch phase {
        case .closed: return []
        case .awaitingSettings:
            if now >= connectedAt + rules.settingsTimeout { close(.silentPeer).map { actions.append($0) } }
            return actions
        case .open, .draining: break
        }
        if now >= connectedAt + rules.maximumAge { retire(.age).map { actions.append($0) } }
        // A server may allow none for a short time only (RFC 9113 section 6.5.2).
        if let closedSince, now >= closedSince + rules.settingsTimeout { retire(.timeouts).map { actions.append($0) } }
        if requests >= rules.maximumRequests { retire(.streamIDsUsedUp).map { actions.append($0) } }
        if let pingSentAt, lastRead < pingSentAt, now >= pingSentAt + rules.pingTimeout {
            close(.pingTimeout).map { actions.append($0) }
        } else if now >= max(lastRead, pingSentAt ?? lastRead) + rules.pingAfter {
            pingSentAt = now
            actions.append(.sendPing)
        }
        closeIfDrained().map { actions.append($0) }
        return actions
    }

    /// Finish requests in flight, then close.
    mutating func drain() -> [Action] {
        if phase == .awaitingSettings { phase = .draining }
        return [retire(.poolDecided), closeIfDrained()].compactMap(\.self)
    }

    mutating func cutOff() -> Action? { close(.cutOff) }

    /// When `tick` has something to decide next.
    var nextTick: ContinuousClock.Instant? {
        switch phase {
        case .closed: return nil
        case .awaitingSettings: return connectedAt + rules.settingsTimeout
        case .open, .draining:
            var next = max(lastRead, pingSentAt ?? lastRead) + rules.pingAfter
            if let pingSentAt, lastRead < pingSentAt { next = pingSentAt + rules.pingTimeout }
            guard phase == .open else { return next }
            if let closedSince { next = min(next, closedSince + rules.settingsTimeout) }
            return min(next, connectedAt + rules.maximumAge)
        }
    }

    // MARK: How

    private mutating func prove() -> Action? {
        isProven = true
        return .becameProven
    }

    private mutating func retire(_ cause: RetireCause) -> Action? {
        guard phase == .open || phase == .awaitingSettings else { return nil }
        phase = .draining
        return .retire(cause)
    }

    private mutating func closeIfDrained() -> Action? { phase == .draining && inFlight == 0 ? close(.drained) : nil }

    private mutating func close(_ cause: CloseCause) -> Action? {
        guard phase != .closed else { return nil }
        phase = .closed
        return .close(cause)
    }
}
