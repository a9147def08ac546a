import Broker
import PushModel

/// The messages that each job still waits for: outcomes, retries and dead letters are gathered, published and confirmed, and only then is
/// the job acknowledged (docs/promises.md, 1).
struct SettlementBook {
    /// News in a confirmation.
    struct Change {
        var isHeartbeatLost = false
        /// The broker refuses outcomes from now on.
        var isRefusal = false
        /// It takes them again.
        var isRefusalOver = false
    }

    /// A queue that takes longer to confirm does not hold up the work on other jobs. Milliseconds.
    private static let latePatience: Int64 = 2_000

    private let rules: CoreRules
    private(set) var ledger = SettlementLedger<DeliveryTag>()
    /// Takes each lane's retries back if the broker delivers their jobs anew.
    private var withdrawals = Lanes(Withdrawal())
    private var gathered = OutcomeGatherer()
    /// Messages for the next flush.
    private var outbox: [OutboundMessage] = []
    /// Publications that the broker has not confirmed.
    private var publications: [PublicationNumber: Publication] = [:]
    private var lastPublication: PublicationNumber = 0
    private var lastFlush: Int64 = 0
    private var hasHeartbeat = false
    /// When the newest message was published that the broker has confirmed.
    private(set) var newestConfirmed: Int64 = 0
    /// Messages that the broker did not take. They are published again once `refusedUntil` has passed.
    private(set) var refused: [OutboundMessage] = []
    private var refusedUntil: Int64 = 0
    /// The broker's refusal, while it refuses outcomes: then no request is sent.
    private(set) var refusal: OutcomeRefusal?

    init(rules: CoreRules) {
        self.rules = rules
        for lane in Lane.allCases { withdrawals[lane] = Withdrawal() }
    }

    /// Whether every job is decided, confirmed and acknowledged. Heartbeats and probes may be unanswered.
    var isEmpty: Bool {
        ledger.isEmpty && gathered.count == 0 && refused.isEmpty && outbox.allSatisfy(\.covers.isEmpty)
            && publications.values.allSatisfy { $0.unanswered.allSatisfy(\.covers.isEmpty) }
    }
    /// Messages wait for ``CoreRules/gatheringPause`` to pass.
    var isHolding: Bool { gathered.count > 0 || !outbox.isEmpty }
    /// There are enough for one event.
    var isFull: Bool { gathered.isFull }
    var unconfirmed: Int { publications.count }
    /// When the oldest publication was made that the broker has not confirmed.
    var oldestUnconfirmed: Int64? { publications.values.lazy.map(\.since).min() }

    /// Whether the broker confirms what is published now. A single queue may still owe an answer.
    func isConfirming(at now: Int64) -> Bool { isConfirming(at: now, within: rules.confirmPatience) }

    private func isConfirming(at now: Int64, within patience: Int64) -> Bool {
        guard let oldest = oldestUnconfirmed else { return true }
        return now - max(oldest, newestConfirmed) < patience
    }

    // MARK: What jobs owe

    mutating func enter(_ deliveryTag: DeliveryTag, of lane: Lane) -> UInt64 { ledger.enter(deliveryTag, of: lane) }

    /// The message is a job.
    mutating func begin(_ job: UInt64, of appLane: AppLaneIndex, deliveries: Int) { ledger.begin(job, of: appLane, deliveries: deliveries) }

    /// Every delivery of the job is decided.
    mutating func finish(_ job: UInt64) { ledger.finish(job) }

    mutating func report(_ delivery: OutcomeEvent.Delivery, _ outcome: OutcomeClass, isFinal: Bool, of job: UInt64, app: AppSlug) {
        if gathered.add(delivery, app: app, outcome: outcome, isFinal: isFinal, job: job) { ledger.owe(job) }
    }

    /// Publishes a retry or a dead letter of the job.
    /// - Parameter lane: The queue's lane: the retry is taken back if the broker delivers the job anew before it is written. Nil: it is
    ///   not.
    mutating func publish(_ message: OutgoingMessage, _ kind: OutboundMessage.Kind, of job: UInt64, withdrawnWith lane: Lane? = nil) {
        var message = message
        if let lane { message.withdrawal = withdrawals[lane] }
        ledger.owe(job)
        outbox.append(OutboundMessage(message: message, covers: [job], kind: kind))
    }

    /// The job is not settled before the other job's retries are confirmed.
    mutating func join(_ job: UInt64, retriesOf other: UInt64) {
        func join(_ message: inout OutboundMessage) {
            guard message.kind == .retry, message.covers.contains(other), !message.covers.contains(job) else { return }
            message.covers.append(job)
            ledger.owe(job)
        }
        for index in outbox.indices { join(&outbox[index]) }
        for index in refused.indices { join(&refused[index]) }
        for number in publications.keys { publications[number]?.forEachUnanswered(join) }
    }

    /// The connection that brought a lane's jobs is lost: the broker delivers every unacknowledged one anew, here or elsewhere. Requests
    /// that have left are still reported, because reports are idempotent; the other copy makes the retries.
    mutating func forgetReceipts(of lane: Lane) {
        ledger.forget(lane)
        withdrawals[lane].make()
        withdrawals[lane] = Withdrawal()
        outbox.removeAll { $0.message.withdrawal?.isMade == true }
        refused.removeAll { $0.message.withdrawal?.isMade == true }
    }

    // MARK: Publishing

    /// When no other work waits: at once, or, while the broker still has confirmations to send, a moment later, so that messages grow under
    /// load.
    mutating func flushIfDue(at now: Int64, wall: Int64, serving directory: CredentialDirectory, _ effects: inout CoreEffects) {
        if publications.isEmpty || now - lastFlush >= CoreRules.gatheringPause {
            flush(at: now, wall: wall, serving: directory, &effects)
        }
        acknowledgeSettled(&effects)
    }

    /// Publishes all gathered outcomes together, and acknowledges all settled jobs together.
    mutating func flush(at now: Int64, wall: Int64, serving directory: CredentialDirectory, _ effects: inout CoreEffects) {
        for event in gathered.takeAll() {
            effects.tally.count(event, app: directory.serves(event.app) ? event.app : nil)
            outbox.append(OutboundMessage(event, topology: rules.topology, source: rules.source, at: wall))
        }
        if !outbox.isEmpty {
            lastPublication += 1
            publications[lastPublication] = Publication(outbox, since: now)
            effects.actions.append(.publish(lastPublication, outbox.map(\.message)))
            outbox.removeAll(keepingCapacity: true)
            lastFlush = now
        }
        acknowledgeSettled(&effects)
    }

    private mutating func acknowledgeSettled(_ effects: inout CoreEffects) {
        ledger.takeSettled { lane, deliveryTags in
            effects.tally.acknowledged += deliveryTags.count
            effects.actions.append(.acknowledge(lane, deliveryTags))
        }
    }

    /// Outcomes of messages of a publication: the broker has each message, or has not confirmed it.
    mutating func confirm(_ number: PublicationNumber, _ answers: [PublishAnswer], at now: Int64, _ effects: inout CoreEffects) -> Change {
        var change = Change()
        var failure: PublishFailure?
        var (lost, lostBecause) = (0, "")
        var published: Int64?
        for answer in answers {
            guard let (message, since) = publications[number]?.take(answer.index) else { continue }
            if answer.outcome.isConfirmed { newestConfirmed = max(newestConfirmed, since) }
            switch (message.kind, answer.outcome) {
            case (.heartbeat, let outcome):
                hasHeartbeat = false
                change.isHeartbeatLost = !outcome.isConfirmed
            case (.probe, .confirmed): endRefusal(at: now, &change, &effects)
            case (.probe, _): refusal?.isProbing = false
            case (.outcome, .confirmedElsewhere):
                pay(message)
                beginRefusal(of: message, at: now, &change, &effects)
            case (_, .confirmed), (_, .confirmedElsewhere): pay(message)
            // The broker delivers its job anew.
            case (_, .failed(.withdrawn)): break
            // Its deliveries are reported: without the letter nobody can replay them, and nothing else is lost.
            case (.deadLetter, .failed(.nacked)), (.deadLetter, .failed(.unroutable)), (_, .failed(.invalid)):
                pay(message)
                effects.tally.lettersLost += 1
                lost += 1
                if case .failed(let reason) = answer.outcome { lostBecause = "\(message.kind) \(reason)" }
            case (.unreadable, .failed(.nacked)), (.unreadable, .failed(.unroutable)):
                // The broker keeps it in its queue until the dead letters have room.
                for job in message.covers {
                    if let (lane, deliveryTag) = ledger.takeOut(job) { effects.actions.append(.discard(lane, [deliveryTag])) }
                }
            case (let kind, .failed(let reason)):
                failure = reason
                if kind == .outcome, reason == .nacked || reason == .unroutable {
                    beginRefusal(of: message, at: now, &change, &effects)
                }
                refused.append(message)
                refusedUntil = now + rules.refusalPause
            }
            if message.kind != .heartbeat, message.kind != .probe { published = since }
        }
        if let published { effects.tally.settlements.append(now - published) }
        if publications[number]?.isEmpty == true { publications[number] = nil }
        if lost > 0 { effects.actions.append(.note(.givenUp(messages: lost, reason: lostBecause))) }
        if let failure { effects.actions.append(.note(.publishFailed(messages: answers.count, reason: "\(failure)"))) }
        return change
    }

    private mutating func pay(_ message: OutboundMessage) {
        for job in message.covers { ledger.pay(job) }
    }

    mutating func tick(at now: Int64, isStopping: Bool) {
        publishRefused(at: now)
        if !isStopping { probe(at: now) }
        for publication in publications.values where now - publication.since >= Self.latePatience {
            for message in publication.unanswered { for job in message.covers { ledger.isLate(job) } }
        }
    }

    private mutating func publishRefused(at now: Int64) {
        guard !refused.isEmpty, now >= refusedUntil else { return }
        outbox.append(contentsOf: refused)
        refused.removeAll()
    }

    /// Publishes a message when no other was published or confirmed for a while, so that a late confirmation reveals a slow link, a slow
    /// broker or a node that lost the others, and a timely one that only a queue is silent. Without it, an idle dispatcher would notice
    /// only by jobs that arrive before the fences that were delayed with them.
    mutating func sendHeartbeat(at now: Int64, wall: Int64) {
        let isIdle = outbox.isEmpty && now - lastFlush >= rules.heartbeatInterval
        guard !hasHeartbeat, isIdle || !isConfirming(at: now, within: rules.heartbeatInterval) else { return }
        hasHeartbeat = true
        let message = OutgoingMessage(
            exchange: "", routingKey: rules.topology.heartbeatQueue, messageID: .timeOrdered(milliseconds: wall),
            contentType: "text/plain", body: [], isMandatory: false)
        outbox.append(OutboundMessage(message: message, covers: [], kind: .heartbeat))
    }

    // MARK: Outcomes that the broker refuses (docs/decisions/refused-outcomes.md)

    // While the broker refuses outcomes, no request is sent, so only requests in flight get answers that cannot be reported. Their outcomes
    // wait in a durable queue, and their jobs are acknowledged long before `consumer_timeout`, after which the broker would deliver them
    // anew.

    private mutating func beginRefusal(of message: OutboundMessage, at now: Int64, _ change: inout Change, _ effects: inout CoreEffects) {
        guard refusal == nil else { return }
        refusal = OutcomeRefusal(since: now, probe: OutboundMessage(probing: message), probedAt: now)
        change.isRefusal = true
        effects.actions.append(.note(.outcomesRefused))
    }

    private mutating func endRefusal(at now: Int64, _ change: inout Change, _ effects: inout CoreEffects) {
        guard let over = refusal else { return }
        refusal = nil
        change.isRefusalOver = true
        effects.actions.append(.note(.outcomesTaken(afterMilliseconds: now - over.since)))
    }

    private mutating func probe(at now: Int64) {
        guard let current = refusal, !current.isProbing else { return }
        guard now - current.probedAt >= rules.probePause else { return }
        refusal?.probedAt = now
        refusal?.isProbing = true
        outbox.append(current.probe)
    }
}

/// Since when the broker refuses outcomes.
struct OutcomeRefusal {
    let since: Int64
    /// A copy of the event that was refused first. Once the broker takes it, there is room again.
    let probe: OutboundMessage
    var probedAt: Int64
    /// The broker has not answered the last copy yet.
    var isProbing = false
}

/// Messages on their way to the broker together. Each is answered by itself.
private struct Publication {
    private var messages: [OutboundMessage?]
    private var missing: Int
    let since: Int64

    init(_ messages: [OutboundMessage], since: Int64) {
        self.messages = messages
        missing = messages.count
        self.since = since
    }

    var isEmpty: Bool { missing == 0 }
    var unanswered: some Sequence<OutboundMessage> { messages.lazy.compactMap(\.self) }

    mutating func forEachUnanswered(_ body: (inout OutboundMessage) -> Void) {
        for index in messages.indices {
            guard var message = messages[index] else { continue }
            body(&message)
            messages[index] = message
        }
    }

    mutating func take(_ index: Int) -> (OutboundMessage, since: Int64)? {
        guard let message = messages[index].take() else { return nil }
        missing -= 1
        return (message, since)
    }
}
