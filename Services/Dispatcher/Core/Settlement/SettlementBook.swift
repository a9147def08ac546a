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

    private let rules: CoreRules
    private(set) var ledger = SettlementLedger<Receipt>()
    private var gathered = OutcomeGatherer()
    /// Messages for the next flush.
    private var outbox: [OutboundMessage] = []
    /// Publications that the broker has not confirmed.
    private var publications: [PublicationNumber: Publication] = [:]
    private var lastPublication: PublicationNumber = 0
    private var lastFlush: Int64 = 0
    /// Messages that the broker did not take. They are published again once `refusedUntil` has passed.
    private(set) var refused: [OutboundMessage] = []
    private var refusedUntil: Int64 = 0
    /// Not nil while the broker refuses outcomes: then no request is sent.
    private(set) var refusal: OutcomeRefusal?

    init(rules: CoreRules) { self.rules = rules }

    /// Whether every job is decided, confirmed and acknowledged.
    var isEmpty: Bool { publications.isEmpty && refused.isEmpty && outbox.isEmpty && gathered.count == 0 && ledger.isEmpty }
    /// Messages wait for ``CoreRules/gatheringPause`` to pass.
    var isHolding: Bool { gathered.count > 0 || !outbox.isEmpty }
    /// There are enough for one event.
    var isFull: Bool { gathered.isFull }
    var unconfirmed: Int { publications.count }
    /// When the oldest publication was made that the broker has not confirmed, in UNIX milliseconds.
    var oldestUnconfirmed: Int64? { publications.values.lazy.map(\.since).min() }

    // MARK: What jobs owe

    mutating func enter(_ receipt: Receipt) -> UInt64 { ledger.enter(receipt) }

    /// The message is a job.
    mutating func begin(_ job: UInt64, of line: JobLine, deliveries: Int) { ledger.begin(job, of: line, deliveries: deliveries) }

    /// Every delivery of the job is decided.
    mutating func finish(_ job: UInt64) { ledger.pay(job) }

    mutating func report(_ delivery: OutcomeEvent.Delivery, _ outcome: OutcomeClass, isFinal: Bool, of job: UInt64, app: AppSlug) {
        if gathered.add(delivery, app: app, outcome: outcome, isFinal: isFinal, job: job) { ledger.owe(job) }
    }

    /// Publishes a retry or a dead letter of the job.
    mutating func publish(_ message: OutgoingMessage, _ kind: OutboundMessage.Kind, of job: UInt64, longestDelay: RetryDelay? = nil) {
        ledger.owe(job)
        outbox.append(OutboundMessage(message: message, covers: [job], kind: kind, longestDelay: longestDelay))
    }

    /// The connection that brought the jobs is lost: the broker delivers every unacknowledged one anew, here or elsewhere. Requests that
    /// have left are still reported, because reports are idempotent; the other copy makes the retries.
    mutating func forgetReceipts() {
        ledger.forgetAll()
        outbox.removeAll { $0.kind == .retry }
        refused.removeAll { $0.kind == .retry }
    }

    // MARK: Publishing

    /// When no other work waits: at once, or, while the broker still has confirmations to send, a moment later, so that messages grow under
    /// load.
    mutating func flushIfDue(at now: Int64, serving directory: CredentialDirectory, _ effects: inout CoreEffects) {
        if publications.isEmpty || now - lastFlush >= CoreRules.gatheringPause || now < lastFlush {
            flush(at: now, serving: directory, &effects)
        }
        acknowledgeSettled(&effects)
    }

    /// Publishes all gathered outcomes together, and acknowledges all settled jobs together.
    mutating func flush(at now: Int64, serving directory: CredentialDirectory, _ effects: inout CoreEffects) {
        for event in gathered.takeAll() {
            effects.tally.count(event, app: directory.serves(event.app) ? event.app : nil)
            outbox.append(OutboundMessage(event, topology: rules.topology, source: rules.source, at: now))
        }
        if !outbox.isEmpty {
            lastPublication += 1
            publications[lastPublication] = Publication(messages: outbox, since: now)
            effects.actions.append(.publish(lastPublication, outbox.map(\.message)))
            outbox.removeAll(keepingCapacity: true)
            lastFlush = now
        }
        acknowledgeSettled(&effects)
    }

    private mutating func acknowledgeSettled(_ effects: inout CoreEffects) {
        let receipts = ledger.takeSettled()
        guard !receipts.isEmpty else { return }
        effects.tally.acknowledged += receipts.count
        effects.actions.append(.acknowledge(receipts))
    }

    /// The outcomes of a publication: the broker has each message, or has not confirmed it.
    mutating func confirm(
        _ number: PublicationNumber, _ outcomes: [PublishOutcome], at now: Int64, _ effects: inout CoreEffects
    ) -> Change {
        var change = Change()
        guard let publication = publications.removeValue(forKey: number) else { return change }
        if publication.isHeartbeat {
            change.isHeartbeatLost = !outcomes.allSatisfy(\.isConfirmed)
            return change
        }
        effects.tally.settlements.append(max(0, now - publication.since))
        var failure: PublishFailure?
        for (message, outcome) in zip(publication.messages, outcomes) {
            switch outcome {
            case .confirmed:
                for job in message.covers { ledger.pay(job) }
                if message.kind == .probe { endRefusal(at: now, &change, &effects) }
            case .confirmedElsewhere:
                for job in message.covers { ledger.pay(job) }
                beginRefusal(of: message, at: now, &change, &effects)
            case .failed where message.kind == .probe: refusal?.isProbing = false
            case .failed(let reason):
                failure = reason
                if message.kind == .outcome, reason == .nacked || reason == .unroutable {
                    beginRefusal(of: message, at: now, &change, &effects)
                }
                refused.append(reason == .nacked ? message.elsewhere(in: rules.topology) : message)
            }
        }
        if let failure {
            refusedUntil = now + rules.refusalPause
            effects.actions.append(.note(.publishFailed(messages: refused.count, reason: "\(failure)")))
        }
        return change
    }

    mutating func tick(at now: Int64, isStopping: Bool) {
        publishRefused(at: now)
        if !isStopping { probe(at: now) }
    }

    private mutating func publishRefused(at now: Int64) {
        // Later than any pause could end: the clock was set back meanwhile, and the pause must not last that long.
        let isOver = now >= refusedUntil || refusedUntil - now > rules.refusalPause
        guard !refused.isEmpty, isOver else { return }
        outbox.append(contentsOf: refused)
        refused.removeAll()
    }

    /// Publishes a message when no other waits for a confirmation, so that a late confirmation reveals a slow link, a slow broker or a node
    /// that lost the others. Without it, an idle dispatcher would notice only by jobs that arrive before the fences that were delayed with
    /// them.
    mutating func sendHeartbeat(at now: Int64) {
        guard publications.isEmpty, outbox.isEmpty, now - lastFlush >= rules.heartbeatInterval || now < lastFlush else { return }
        let message = OutgoingMessage(
            exchange: "", routingKey: rules.topology.heartbeatQueue, messageID: .timeOrdered(milliseconds: now),
            contentType: "text/plain", body: [], isMandatory: false)
        outbox.append(OutboundMessage(message: message, covers: [], kind: .heartbeat))
    }

    // MARK: Outcomes that the broker refuses (PushModel.docc, PD-0006)

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
        effects.actions.append(.note(.outcomesTaken(afterMilliseconds: max(0, now - over.since))))
    }

    private mutating func probe(at now: Int64) {
        guard let current = refusal, !current.isProbing else { return }
        guard now - current.probedAt >= rules.probePause || now < current.probedAt else { return }
        refusal?.probedAt = now
        refusal?.isProbing = true
        outbox.append(current.probe)
    }
}

/// Since when the broker refuses outcomes.
struct OutcomeRefusal {
    /// UNIX milliseconds.
    let since: Int64
    /// A copy of the event that was refused first. Once the broker takes it, there is room again.
    let probe: OutboundMessage
    var probedAt: Int64
    /// The broker has not answered the last copy yet.
    var isProbing = false
}

/// Messages on their way to the broker together.
private struct Publication {
    let messages: [OutboundMessage]
    let since: Int64
    /// It belongs to no job: see ``SettlementBook/sendHeartbeat(at:)``.
    var isHeartbeat: Bool { messages.count == 1 && messages[0].kind == .heartbeat }
}
