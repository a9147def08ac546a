import Broker
import PushModel

/// The second half of the line: results are gathered, published and confirmed, and only then is the job acknowledged.
extension DispatcherCore {
    /// One outcome of one delivery.
    mutating func report(
        _ outcome: OutcomeClass, _ index: Int, _ said: Answered, retryAt: Int64? = nil, of progress: inout JobInProgress
    ) {
        _ = progress.pending.remove(index)
        progress.hasResults = true
        let owesMore = gathered.add(
            OutcomeEvent.Delivery(
                progress.job.deliveries[index], of: progress, said, retryAt: retryAt,
                attempt: retryAt == nil && said.sentAt == nil && [.failed, .unknown].contains(outcome)
                    ? progress.lastAttempt : progress.attempt),
            app: progress.job.app, outcome: outcome, isFinal: retryAt == nil, job: progress.number)
        if owesMore { ledger.owe(progress.number) }
    }

    /// A copy of the job that holds only what needs another try.
    mutating func retryLater(
        _ indices: [Int], of progress: inout JobInProgress, after delay: RetryDelay, countsAsAttempt: Bool, at now: Int64
    ) {
        progress.hasResults = true
        let topology = rules.topology
        let headers = progress.headers
        let message = OutgoingMessage(
            exchange: topology.retryExchange(delay), routingKey: topology.jobRoutingKey(progress.job.lane),
            messageID: PushID.timeOrdered(milliseconds: now), contentType: PushJob.contentType,
            headers: headers.forRetry(waits: countsAsAttempt ? 0 : headers.waits + 1, heldBy: progress.heldBy),
            body: progress.copy(of: indices, attempt: countsAsAttempt ? progress.attempt : progress.job.attempt).encoded())
        ledger.owe(progress.number)
        outbox.append(OutboundMessage(message: message, covers: [progress.number], kind: .retry, longestDelay: delay))
        tally.retries[delay, default: 0] += indices.count
    }

    /// A copy of the job that holds what was given up.
    mutating func deadLetter(_ indices: [Int], of progress: JobInProgress, because end: RetryPlan.EndReason, at now: Int64) {
        var headers = progress.headers.kept
        headers[DeadLetterHeader.reason] = end.rawValue
        let message = OutgoingMessage(
            exchange: rules.topology.deadExchange, routingKey: rules.topology.jobRoutingKey(progress.job.lane),
            messageID: PushID.timeOrdered(milliseconds: now), contentType: PushJob.contentType, headers: headers,
            body: progress.copy(of: indices, attempt: progress.attempt).encoded())
        deadLetter(message, of: progress.number)
        tally.deadLettered += indices.count
        actions.append(.note(.deadLettered(notification: progress.job.notification, reason: end.rawValue, deliveries: indices.count)))
    }

    /// A message that is no job goes as it came.
    mutating func deadLetter(_ received: ReceivedMessage, of number: UInt64, because reason: String, detail: String, at now: Int64) {
        var headers = JobHeaders(received.headers).kept
        headers[DeadLetterHeader.reason] = reason
        headers[DeadLetterHeader.detail] = detail
        headers[DeadLetterHeader.source] = received.queue
        let message = OutgoingMessage(
            exchange: rules.topology.deadExchange, routingKey: received.routingKey, messageID: PushID.timeOrdered(milliseconds: now),
            contentType: received.contentType, headers: headers, body: received.body)
        deadLetter(message, of: number)
        tally.deadLettered += 1
        actions.append(.note(.undecodable(reason: reason, detail: detail, messageID: received.messageID)))
    }

    private mutating func deadLetter(_ message: OutgoingMessage, of number: UInt64) {
        ledger.owe(number)
        outbox.append(OutboundMessage(message: message, covers: [number], kind: .deadLetter))
    }

    /// When nothing else waits: at once, or, while the broker still owes confirmations, a moment later, so that messages grow under load.
    mutating func flushIfDue(at now: Int64) {
        if publications.isEmpty || now - lastFlush >= CoreRules.gatheringPause || now < lastFlush { flush(at: now) }
        acknowledgeSettled()
    }

    /// Something waits for ``CoreRules/gatheringPause`` to pass.
    var isHolding: Bool { gathered.count > 0 || !outbox.isEmpty }

    /// 10. What was gathered leaves in one publication; what is settled is acknowledged in one go.
    mutating func flush(at now: Int64) {
        for event in gathered.takeAll() {
            count(event)
            outbox.append(OutboundMessage(event, topology: rules.topology, source: rules.source, at: now))
        }
        if !outbox.isEmpty {
            lastPublication += 1
            publications[lastPublication] = Publication(messages: outbox, since: now)
            actions.append(.publish(lastPublication, outbox.map(\.message)))
            outbox.removeAll(keepingCapacity: true)
            lastFlush = now
        }
        acknowledgeSettled()
    }

    private mutating func acknowledgeSettled() {
        let receipts = ledger.takeSettled()
        if !receipts.isEmpty {
            tally.acknowledged += receipts.count
            actions.append(.acknowledge(receipts))
        }
    }

    /// 11. The broker has them, or has not.
    mutating func confirm(_ number: PublicationNumber, _ outcomes: [PublishOutcome], at now: Int64) {
        guard let publication = publications.removeValue(forKey: number) else { return }
        if publication.isHeartbeat { return heartbeatEnded(outcomes, at: now) }
        tally.settlements.append(max(0, now - publication.since))
        var failure: PublishFailure?
        for (message, outcome) in zip(publication.messages, outcomes) {
            switch outcome {
            case .confirmed:
                for job in message.covers { ledger.pay(job) }
                if message.kind == .probe { outcomesTaken(at: now) }
            case .confirmedElsewhere:
                for job in message.covers { ledger.pay(job) }
                outcomeRefused(message, at: now)
            case .failed where message.kind == .probe: outcomeRefusal?.isProbing = false
            case .failed(let reason):
                failure = reason
                if message.kind == .outcome, reason == .nacked || reason == .unroutable { outcomeRefused(message, at: now) }
                refused.append(reason == .nacked ? message.elsewhere(in: rules.topology) : message)
            }
        }
        guard let failure else { return }
        refusedUntil = now + rules.refusalPause
        actions.append(.note(.publishFailed(messages: refused.count, reason: "\(failure)")))
    }

    mutating func publishRefused(at now: Int64) {
        // Farther away than it ever was: the clock was set back meanwhile, and the pause is not to last as long as that.
        let isOver = now >= refusedUntil || refusedUntil - now > rules.refusalPause
        guard !refused.isEmpty, isOver else { return }
        outbox.append(contentsOf: refused)
        refused.removeAll()
    }
}

/// A message of ours, and what it is good for.
struct OutboundMessage {
    enum Kind { case outcome, retry, deadLetter, heartbeat, probe }

    private(set) var message: OutgoingMessage
    /// One entry for each confirmation that a job owes.
    let covers: [UInt64]
    let kind: Kind
    /// Of a retry: how long it may wait.
    var longestDelay: RetryDelay?

    /// Where its delayed queue is full: the next shorter one, in which nothing that was promised is late; after the shortest the first again. Waiting
    /// for room instead would keep the job here, and with enough of them its lane would stand still.
    func elsewhere(in topology: Topology) -> OutboundMessage {
        guard kind == .retry, let longestDelay,
            let present = RetryDelay.allCases.first(where: { topology.retryExchange($0) == message.exchange })
        else { return self }
        var other = self
        other.message.exchange = topology.retryExchange(RetryDelay.allCases.last { $0 < present } ?? longestDelay)
        return other
    }
}

extension OutboundMessage {
    init(_ gathered: OutcomeGatherer.Gathered, topology: Topology, source: String, at now: Int64) {
        let event = OutcomeEvent(
            id: PushID.timeOrdered(milliseconds: now), source: source, time: now, app: gathered.app, outcome: gathered.outcome,
            isFinal: gathered.isFinal, deliveries: gathered.deliveries)
        message = OutgoingMessage(
            exchange: topology.outcomesExchange, routingKey: event.routingKey, messageID: event.id, contentType: OutcomeEvent.contentType,
            headers: [:], body: event.encoded(), fallbackExchange: topology.waitingOutcomesExchange)
        covers = gathered.jobs
        kind = .outcome
        longestDelay = nil
    }

    /// A copy that no job waits for.
    init(probing refused: OutboundMessage) {
        message = refused.message
        message.fallbackExchange = nil
        covers = []
        kind = .probe
        longestDelay = nil
    }
}

/// Messages on their way to the broker together.
struct Publication {
    let messages: [OutboundMessage]
    let since: Int64
    /// It belongs to no job: see ``DispatcherCore/sendHeartbeat(at:)``.
    var isHeartbeat: Bool { messages.count == 1 && messages[0].kind == .heartbeat }
}

/// Headers of a dead letter, beside the job's own.
enum DeadLetterHeader {
    static let reason = "push-reason"
    static let detail = "push-detail"
    /// The queue that a message came from that is no job.
    static let source = "push-source"
}

extension OutcomeEvent.Delivery {
    fileprivate init(
        _ delivery: PushJob.Delivery, of progress: borrowing JobInProgress, _ said: Answered, retryAt: Int64?, attempt: Int
    ) {
        self.init(
            id: delivery.id, notification: progress.job.notification, installation: delivery.installation,
            attempt: attempt + progress.headers.earlierAttempts, ownerEpoch: delivery.ownerEpoch, status: said.status,
            reason: said.reason, timestamp: said.timestamp, sentAt: said.sentAt, retryAt: retryAt,
            environment: delivery.environmentTrial == .made ? delivery.environment : nil)
    }
}

extension JobInProgress {
    func copy(of indices: [Int], attempt: Int) -> PushJob {
        var copy = job
        copy.deliveries = indices.map { index in
            var delivery = switched.contains(index) ? job.deliveries[index].inOtherEnvironment : job.deliveries[index]
            delivery.earlierOutcome = attempts(of: index)
            return delivery
        }
        copy.attempt = attempt
        return copy
    }
}

extension PushJob.Delivery {
    /// The one try that an unproven environment allows.
    fileprivate var inOtherEnvironment: PushJob.Delivery {
        var other = self
        other.environment = environment.other
        other.environmentTrial = .made
        return other
    }
}
