import PushModel
import Synchronization

@testable import APNs
@testable import Broker
@testable import Dispatcher

/// The world around the core, random from a seed: a broker with queues, delays and lost connections, pools, and a control stream. It
/// records every breach of the dispatcher's promises.
struct SimulatedWorld {
    var core: DispatcherCore
    let gate = ControlGate()
    var chance: SplitMix64
    var now = Fixture.start
    let topology = Topology(prefix: "push")

    // The broker.
    var ready: [StoredMessage] = []
    var delayed: [(due: Int64, message: StoredMessage)] = []
    var unacknowledged: [DeliveryTag: StoredMessage] = [:]
    var isTaking = false
    var generation: UInt64 = 1
    var lastTag: UInt64 = 0
    var publishing: [(number: PublicationNumber, messages: [(index: Int, message: OutgoingMessage)])] = []
    var dead: [StoredMessage] = []
    /// The outcomes' queue is full.
    var refusesOutcomes = false
    /// Outcomes that it refused, until it takes them.
    var waitingOutcomes: [(due: Int64, event: OutcomeEvent)] = []
    /// A planted fault: the queue for refused outcomes takes none either.
    var refusesWaitingOutcomes = false
    /// Events that were refused and waited.
    var timesOutcomesWaited = 0

    // The control stream.
    var stream: [ControlMessage] = []
    var streamRead = 0
    var isControlConnected = false
    var markers: [(id: PushID, message: OutgoingMessage)] = []
    /// The broker silently gives the reader nothing more.
    private var isReaderForgotten = false
    var isToReconnectControl = false
    /// A planted fault: the core does not get these entries, and the account does.
    var deafTo: Deafness?
    /// Jobs that went to a delayed queue because of a hold.
    var timesHeld = 0
    /// Refused streams of each delivery since it last waited in a delayed queue.
    var refusals: [PushID: [Refusal]] = [:]
    var timesRefused = 0
    /// APNs refuses nearly every stream until it is fair.
    let refusesAll: Bool
    /// Deliveries that ended as `unknown` although something else stopped them.
    var timesRemembered = 0
    /// Jobs that were sent once more at once.
    var secondCopies = 0
    private var holdsWritten: UInt64 = 0
    private var holdsLifted: Set<UInt64> = []

    struct Refusal: Equatable {
        let pool: Int
        let connection: ConnectionID
    }

    enum Deafness: String, CaseIterable { case fences, cancels, holds }

    // The pools, and APNs behind them.
    /// By number; those that were replaced stay.
    var pools: [SimulatedPool] = []
    var plan: CredentialPlan
    private let entries: [CredentialsEntry]
    private(set) var credentialChanges = 0
    private let jitter: SeededJitter
    /// From now on no random fault happens.
    var isFair = false
    /// The pool with more work than streams, where everything happens.
    var crowded: PoolNumber?

    // The account of every delivery.
    /// Half of the schedules never lose the connection, so that no second copy excuses a fault.
    let losesJobsConnection: Bool
    var deliveries: [PushID: Account] = [:]
    var apps: [PushID: AppSlug] = [:]
    var breaches: [String] = []

    struct StoredMessage {
        var body: [UInt8]
        var headers: [String: String]
        var lane: String
        /// Of the job in it; nil where there is none.
        var deliveries: [PushID]?
        var wasDelivered = false
        /// UNIX milliseconds.
        var deliveredAt: Int64 = 0

        init(body: [UInt8], headers: [String: String], lane: String) {
            self.body = body
            self.headers = headers
            self.lane = lane
            do { deliveries = try PushJob(decoding: body).deliveries.map(\.id) } catch { deliveries = nil }
        }
    }

    struct Account {
        var installation: PushID
        var ownerEpoch: Int64
        var notification: PushID
        var original: PushID?
        var expiresAt: Int64
        /// The remaining rule: a second copy uses `resendOnce` up.
        var onUnknown: PushJob.OnUnknown
        let acceptedAt: Int64
        /// A second copy was allowed, until then.
        var secondCopyEnd: Int64?
        /// The environment of the delivery, while the other one may still be tried.
        var environment: APNsEnvironment?
        /// The reason why it may leave (again); nil if it may not.
        private(set) var licence: String? = "first"
        /// How many more copies may leave, because the broker delivered a job again.
        private(set) var copies = 0
        private(set) var hasLeft = false
        var confirmedFinals = 0
        /// Final outcomes that wait for the outcomes' queue.
        var waitingFinals = 0
        /// An attempt left and got no answer.
        var isUnanswered = false
        /// APNs answered an attempt with a fault of its own.
        var hasFailed = false
        /// The broker delivered its job again while this process had it. Each copy knows its own history.
        var isForked = false
        var mayBeSent: Bool { licence != nil || copies > 0 }

        mutating func permit(_ reason: String) {
            if licence == nil { licence = reason } else { copies += 1 }
        }

        mutating func leave() {
            hasLeft = true
            if licence != nil { licence = nil } else { copies = max(0, copies - 1) }
        }

        /// The broker delivers the job again. This process knows what has left, and only `resend` makes one more copy of that.
        /// - Parameter isElsewhere: another message of the broker has it too.
        mutating func fork(isElsewhere: Bool) {
            isForked = true
            if onUnknown == .resend, hasLeft || isElsewhere { copies += 1 }
        }
    }

    let fencedInstallations = (0..<4).map { PushID(high: 0xf, low: UInt64($0)) }

    init(seed: UInt64) throws {
        chance = SplitMix64(seed: seed)
        losesJobsConnection = seed.isMultiple(of: 2)
        // A long schedule: in a short one hardly a request leaves.
        refusesAll = seed % 10 == 5
        var rules = CoreRules(topology: topology, source: "/push/dispatcher/simulated")
        rules.retries.maximumAttempts = 3
        // A small prefetch, so that lanes fill up.
        rules.prefetch = [.now: 4, .soon: 4, .bulk: 4]
        entries = try Self.credentials.get()
        plan = CredentialPlan(CredentialsFile(entries: entries))
        core = DispatcherCore(rules: rules, directory: CredentialDirectory(plan), gate: gate, seed: seed)
        jitter = SeededJitter(seed: seed)
        makePools()
    }

    mutating func breach(_ text: String) { breaches.append("\(now - Fixture.start) ms: \(text)") }

    mutating func roll(_ sides: Int) -> Int { Int.random(in: 0..<sides, using: &chance) }

    // MARK: Jobs

    mutating func addJob(_ number: Int) {
        let notification = PushID(high: 0xa, low: UInt64(number))
        let isCrowded = crowded != nil
        let lifetime: Int64 = [2_000, 60_000, 600_000, 3_600_000][isCrowded ? 2 : roll(4)]
        let made = (0..<(1 + roll(5))).map { index in
            var delivery = Fixture.delivery(
                number * 10 + index, environment: !isCrowded && roll(3) == 0 ? .sandbox : .production,
                installation: roll(3) == 0 ? fencedInstallations[roll(4)] : nil, ownerEpoch: Int64(1 + roll(4)))
            if roll(2) == 0 { delivery.environmentTrial = .allowed }
            return delivery
        }
        let job = PushJob(
            notification: notification, original: number % 4 == 3 ? PushID(high: 0xa, low: UInt64(number - 1)) : nil,
            app: isCrowded ? Fixture.shop : [Fixture.shop, Fixture.shop, Fixture.other, Fixture.unconfigured][roll(4)],
            lane: Lane.allCases[roll(3)], pushType: .alert, topic: "t", priority: 10, expiresAt: now + lifetime, acceptedAt: now,
            onUnknown: PushJob.OnUnknown.allCases[roll(3)], payload: Array("{}".utf8), deliveries: made)
        for delivery in made {
            apps[delivery.id] = job.app
            deliveries[delivery.id] = Account(
                installation: delivery.installation, ownerEpoch: delivery.ownerEpoch, notification: notification,
                original: job.original, expiresAt: job.expiresAt,
                onUnknown: job.onUnknown, acceptedAt: job.acceptedAt,
                environment: delivery.environmentTrial == .allowed && job.app == Fixture.shop ? delivery.environment : nil)
        }
        ready.append(StoredMessage(body: job.encoded(), headers: ["traceparent": "t\(number)"], lane: job.lane.rawValue))
    }

    mutating func addPoison() {
        ready.append(StoredMessage(body: Array("{\"v\":9".utf8), headers: [:], lane: "now"))
    }

    // MARK: Events

    mutating func deliverJobs() {
        guard isTaking, !ready.isEmpty, unacknowledged.count < 8 else { return }
        var messages: [ReceivedMessage] = []
        for _ in 0...roll(3) where !ready.isEmpty {
            var stored = ready.removeFirst()
            lastTag += 1
            let message = ReceivedMessage(
                deliveryTag: DeliveryTag(generation: generation, tag: lastTag), queue: "push.jobs.\(stored.lane)",
                routingKey: stored.lane, redelivered: stored.wasDelivered, body: stored.body, streamOffset: nil,
                properties: .init(contentType: PushJob.contentType, headers: stored.headers))
            stored.wasDelivered = true
            stored.deliveredAt = now
            unacknowledged[message.deliveryTag] = stored
            messages.append(message)
        }
        handle(.jobsReceived(messages))
    }

    mutating func loseJobsConnection() {
        guard isTaking, losesJobsConnection else { return }
        // Each lane has a connection of its own.
        let lane = Lane.allCases[roll(3)]
        for (deliveryTag, stored) in unacknowledged.sorted(by: { $0.key.tag < $1.key.tag }) where stored.lane == lane.rawValue {
            unacknowledged[deliveryTag] = nil
            for delivery in stored.deliveries ?? [] {
                let isElsewhere = isElsewhere(delivery)
                deliveries[delivery]?.fork(isElsewhere: isElsewhere)
            }
            ready.append(stored)
        }
        generation += 1
        handle(.jobsConnection(lane, isUp: false))
    }

    mutating func readControl(upTo limit: Int) {
        guard isControlConnected, !isReaderForgotten, streamRead < stream.count else { return }
        let end = streamRead + min(limit, stream.count - streamRead)
        let messages = (streamRead..<end).filter { !isUnheard(stream[$0]) }.map { Fixture.control(stream[$0], offset: Int64($0)) }
        streamRead = end
        handle(.controlReceived(messages))
    }

    private func isUnheard(_ message: ControlMessage) -> Bool {
        switch (deafTo, message) {
        case (.fences, .fence), (.cancels, .cancel), (.holds, .hold): true
        default: false
        }
    }

    mutating func writeControl() {
        switch roll(6) {
        case 0, 1:
            guard let account = deliveries.sorted(by: { $0.key < $1.key }).randomElement(using: &chance)?.value else { fallthrough }
            stream.append(.cancel(app: Fixture.shop, notification: account.notification, at: now))
        case 2: setHold()
        case 3:
            if holdsWritten > 0 { lift(UInt64(roll(Int(holdsWritten)))) }
        default:
            stream.append(
                .fence(app: Fixture.shop, installation: fencedInstallations[roll(4)], epochsBelow: Int64(1 + roll(5)), at: now))
        }
    }

    /// A hold that ends by itself or lasts until it is lifted.
    private mutating func setHold() {
        let lane = Lane.allCases[roll(3)]
        let account = deliveries.sorted(by: { $0.key < $1.key }).randomElement(using: &chance)?.value
        let notification = account?.original ?? account?.notification ?? .zero
        let scope: HoldScope =
            [
                .everything, .lane(lane), .app(Fixture.shop), .app(Fixture.other), .appLane(Fixture.shop, lane),
                .notification(Fixture.shop, notification),
            ][roll(6)]
        let end = [nil, now + 1_000, now + 45_000][roll(3)]
        stream.append(.hold(id: PushID(high: 0xb, low: holdsWritten), scope: scope, endsAt: end, at: now))
        holdsWritten += 1
    }

    private mutating func lift(_ number: UInt64) {
        holdsLifted.insert(number)
        stream.append(.unhold(id: PushID(high: 0xb, low: number), at: now))
    }

    /// The core has read so.
    func isLifted(_ hold: PushID) -> Bool {
        holdsLifted.contains(hold.low) && stream[..<streamRead].contains { if case .unhold(hold, _) = $0 { true } else { false } }
    }

    mutating func liftAll() {
        for number in 0..<holdsWritten where !holdsLifted.contains(number) { lift(number) }
    }

    // MARK: Credentials

    private static let credentials = Result { try Fixture.credentials() }

    /// A key is replaced, an environment or an app is left out or comes back.
    mutating func changeCredentials(isComplete: Bool = false) {
        var entries = entries
        credentialChanges += 1
        let changed = roll(entries.count)
        entries[changed].digest = [UInt8(truncatingIfNeeded: credentialChanges)]
        switch isComplete ? 9 : roll(5) {
        case 0:
            entries[0] = CredentialsEntry(
                credential: entries[0].credential, environments: [.production], apps: entries[0].apps, digest: entries[0].digest)
        case 1: entries.removeLast()
        case 2: entries.removeFirst()
        default: break
        }
        // What leaves out an environment says the same of the other one, whose pool stays.
        plan = CredentialPlan(CredentialsFile(entries: entries), after: plan)
        makePools()
        handle(.credentialsChanged(plan))
        if Set(pools.indices.filter { !pools[$0].isRetired }) != plan.numbers { breach("other pools serve than the credentials name") }
    }

    /// Those of the plan that are not there yet.
    private mutating func makePools() {
        for new in plan.pools.sorted(by: { $0.number < $1.number }) where new.number >= pools.count {
            let jitter = jitter
            pools.append(SimulatedPool(new, jitter: { jitter.next() }, wall: now))
        }
    }

    mutating func retire(_ number: PoolNumber) {
        if plan.numbers.contains(number) { breach("pool \(number) was retired though its credential is the same") }
        pools[number].retire(at: now)
    }

    mutating func forgetReader() { isReaderForgotten = true }

    mutating func reconnectControl() {
        isToReconnectControl = false
        guard isControlConnected else { return }
        for _ in 0..<2 { toggleControl() }
    }

    mutating func toggleControl() {
        isReaderForgotten = false
        isControlConnected.toggle()
        handle(.controlConnection(isUp: isControlConnected))
    }

    mutating func handle(_ event: CoreEvent) {
        core.steady = now
        core.handle(event, at: now)
        while core.hasWork, isFair || roll(8) > 0 { core.beginNext(at: now) }
        if roll(3) > 0 { core.flush() }
        perform()
    }

    mutating func tick(_ milliseconds: Int64) {
        now += milliseconds
        let due = delayed.filter { $0.due <= now }.map(\.message)
        delayed.removeAll { $0.due <= now }
        ready += due
        moveWaitingOutcomes()
        core.steady = now
        core.tick(at: now)
        perform()
        tickPools()
    }
}

/// The same numbers for the same seed, for use in a closure.
final class SeededJitter: Sendable {
    private let chance: Mutex<SplitMix64>

    init(seed: UInt64) { chance = Mutex(SplitMix64(seed: seed ^ 0x5eed)) }

    func next() -> Double { chance.withLock { Double.random(in: 0..<1, using: &$0) } }
}
