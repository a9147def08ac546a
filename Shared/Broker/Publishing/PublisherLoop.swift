import Logging
import Metrics
import PushModel
import RabbitMQ
import Synchronization
import SystemIO

/// The publisher's thread: owns the connection, the backlog and the unconfirmed window. Single-threaded, hence plain variables.
final class PublisherLoop {
    /// One call to `publish`; its messages are answered one by one.
    private final class Batch {
        var outcomes: [PublishOutcome]
        var missing: Int
        let completion: @Sendable ([PublishOutcome]) -> Void

        init(_ submission: PublisherCore.Submission) {
            outcomes = [PublishOutcome](repeating: .failed(.stopped), count: submission.messages.count)
            missing = submission.messages.count
            completion = submission.completion
        }
    }

    /// An object, because it moves from the backlog to the window and has many parts.
    private final class Pending {
        let message: OutgoingMessage
        let batch: Batch
        let index: Int
        /// How it is confirmed.
        let confirmed: PublishOutcome

        init(message: OutgoingMessage, batch: Batch, index: Int, confirmed: PublishOutcome = .confirmed) {
            self.message = message
            self.batch = batch
            self.index = index
            self.confirmed = confirmed
        }

        /// The same for the exchange that takes messages that its own refuses.
        var fallback: Pending? {
            guard let exchange = message.fallbackExchange else { return nil }
            var message = message
            message.exchange = exchange
            message.fallbackExchange = nil
            return Pending(message: message, batch: batch, index: index, confirmed: .confirmedElsewhere)
        }
    }

    /// How many are written before the broker's answers are read again.
    private static let burst = 64
    /// The broker answers a publish within this time as a rule.
    private static let answerTime = Duration.seconds(1)

    private let core: PublisherCore
    private let link: BrokerLink
    private var backlog = FIFO<Pending>()
    private var tracker = ConfirmTracker<Pending>()
    private var events: [RabbitMQEvent] = []
    private var settled: [ConfirmTracker<Pending>.Settled] = []
    private var isBlocked = false
    /// False until this connection has had its first answer. The broker announces an alarm only to a connection that has published
    /// (docs/rabbitmq.md, Queues): one message tests that, instead of a window that would then wait in the socket until TCP_USER_TIMEOUT.
    private var isProven = false
    /// A confirmation came for a message behind one that has none.
    private var isPassedOver = false
    /// When a refusal makes another connection worthwhile; nil if the broker's version makes that needless.
    private var renewal: RenewalDelay?
    /// Since when the broker has been able to confirm: the connection's start, or the end of an alarm.
    private var mayConfirmSince = ContinuousClock.now

    init(_ core: PublisherCore) throws(SystemError) {
        self.core = core
        link = try BrokerLink(core.settings.link, wokenBy: core.wakeUp, logger: core.logger)
    }

    /// Runs until a stop was requested and everything is settled, or its time is up.
    func run() throws {
        defer { end() }
        while true {
            link.passed()
            core.wakeUp.clear()
            core.inbox.takeAll().forEach(accept)
            let (stopAt, reconnectReason) = core.status.withLock { ($0.stopAt, $0.reconnectReason.take()) }
            if let stopAt, isOver(stopAt) { return }
            if let reconnectReason, link.connection != nil { lost(.givenUp(because: reconnectReason)) }
            let patience = min(BrokerLink.longestWait, stopAt.map { ContinuousClock.now.duration(to: $0) } ?? BrokerLink.longestWait)
            if link.connection == nil {
                guard link.pause <= .zero else {
                    try link.sleep(upTo: min(link.pause, patience))
                    continue
                }
                connect()
            }
            if let connection = link.connection { exchange(connection, patience) }
        }
    }

    /// A stop was requested: whether everything is settled or its time is up.
    private func isOver(_ stopAt: ContinuousClock.Instant) -> Bool {
        core.inbox.close().forEach(accept)
        return (backlog.isEmpty && tracker.count == 0) || .now >= stopAt
    }

    private func accept(_ submission: PublisherCore.Submission) {
        let batch = Batch(submission)
        if submission.messages.isEmpty { return batch.completion([]) }
        for (index, message) in submission.messages.enumerated() {
            backlog.append(Pending(message: message, batch: batch, index: index))
        }
    }

    // MARK: Connection

    private func connect() {
        do throws(RabbitMQError) {
            try link.connect { () throws(RabbitMQError) in
                if let stopAt = core.status.withLock({ $0.stopAt }), isOver(stopAt) { throw .stopped }
            } prepare: { connection throws(RabbitMQError) in
                try connection.selectConfirms()
                if try !BrokerQuirks.refusesWhileLeaderIsLost(connection) {
                    renewal = nil
                } else if renewal == nil {
                    renewal = RenewalDelay()
                }
            } opened: {
                isBlocked = false
                isProven = false
                isPassedOver = false
                mayConfirmSince = .now
                setState(.ready)
            }
        } catch {
            lost(error)
        }
    }

    /// Unconfirmed messages go over the next connection, which numbers its publishes anew.
    /// - Returns: how many messages.
    private func leaveConnection() -> Int {
        link.leave()
        setState(.connecting)
        let unconfirmed = tracker.reset()
        backlog.prepend(unconfirmed)
        core.metrics.republished.increment(by: unconfirmed.count)
        return unconfirmed.count
    }

    private func lost(_ error: RabbitMQError) {
        let unconfirmed = leaveConnection()
        link.failed(error, unfinished: (LogKey.unconfirmed, unconfirmed))
    }

    /// The broker refused a message: over a new connection it may take it (``BrokerQuirks``).
    private func renew(_ connection: RabbitMQConnection) {
        renewal?.renewed()
        if tracker.count == 0 { connection.close() }
        let unconfirmed = leaveConnection()
        core.logger.info(
            "The broker refuses messages: trying another connection",
            metadata: [LogKey.client: "\(core.settings.link.name)", LogKey.unconfirmed: "\(unconfirmed)"])
    }

    private func setState(_ state: PublisherState) {
        core.status.withLock {
            $0.state = state
            $0.peer = link.connection?.peer
        }
        core.metrics.blocked.record(state == .blocked ? 1 : 0)
    }

    private func end() {
        let left = tracker.reset() + remaining()
        for pending in left { settle(pending, .failed(.stopped)) }
        report()
        // Closes properly only if every message is confirmed; else the broker notices by itself.
        if left.isEmpty { link.connection?.close() }
        link.leave()
        setState(.stopped)
        // A late submission that slipped in while the loop ended.
        core.inbox.close().forEach(accept)
        for pending in remaining() { settle(pending, .failed(.stopped)) }
        report()
    }

    private func remaining() -> [Pending] {
        var left: [Pending] = []
        while let pending = backlog.popFirst() { left.append(pending) }
        return left
    }

    // MARK: One round

    private func exchange(_ connection: RabbitMQConnection, _ patience: Duration) {
        do throws(RabbitMQError) {
            // Before every burst: without it librabbitmq's publish may hang (docs/rabbitmq.md, Calls that hang).
            try connection.receive(into: &events)
            handleEvents()
            if isRenewalDue, isAnswered {
                report()
                return renew(connection)
            }
            try connection.leavingNodeOnFailure(checkConfirms)
            try publishBurst(connection)
            report()
            if !canPublish { try connection.wait(orUntil: core.wakeUp.descriptor, timeout: patience) }
        } catch {
            report()
            lost(error)
        }
    }

    /// A message that was lost with its confirmation is published again, with the same id.
    private func checkConfirms() throws(RabbitMQError) {
        guard !isPassedOver else {
            throw RabbitMQError(.timedOut, "basic.publish", "the broker confirmed a message of a stream before an earlier one")
        }
        guard !isBlocked, let oldest = tracker.oldest else { return }
        guard max(oldest, mayConfirmSince).duration(to: .now) > core.settings.confirmLimit else { return }
        throw RabbitMQError(.timedOut, "basic.publish", "the broker has owed a confirmation for more than \(core.settings.confirmLimit)")
    }

    private var isRenewalDue: Bool { renewal?.isDue == true }

    /// The broker has no answer to give, or will not give it soon: a queue that has lost its leader gives none.
    private var isAnswered: Bool { tracker.oldest.map { $0.duration(to: .now) > Self.answerTime } ?? (tracker.count == 0) }

    private var canPublish: Bool {
        guard let next = backlog.first, !isBlocked, !isRenewalDue else { return false }
        if tracker.count == 0 { return true }
        return isProven && tracker.count < core.settings.window && tracker.bytes + next.message.body.count <= core.settings.windowBytes
    }

    private func publishBurst(_ connection: RabbitMQConnection) throws(RabbitMQError) {
        guard canPublish else { return }
        let isBurst = backlog.count > 1
        if isBurst { connection.holdSegments(true) }
        defer { if isBurst { connection.holdSegments(false) } }
        for _ in 0..<Self.burst {
            guard canPublish, let next = backlog.popFirst() else { return }
            let message = next.message.wireMessage
            guard message.isEncodable else {
                settle(next, .failed(.invalid))
                continue
            }
            // Before the write: a message whose write failed half way is unconfirmed too.
            tracker.published(next, id: next.message.messageID, bytes: message.body.count)
            try connection.publish(message, mandatory: next.message.isMandatory)
        }
    }

    private func handleEvents() {
        for event in events {
            switch event {
            case .confirmed(let tag, let multiple): answered(tag, multiple, isRefusal: false)
            case .refused(let tag, let multiple): answered(tag, multiple, isRefusal: true)
            case .returned(let message): returned(message)
            case .blocked(let reason): blocked(reason)
            case .unblocked: unblocked()
            case .delivery, .consumerCancelled: break
            }
        }
        events.removeAll(keepingCapacity: true)
    }

    private func answered(_ tag: UInt64, _ multiple: Bool, isRefusal: Bool) {
        isProven = true
        if isRefusal { renewal?.refused() }
        if core.settings.isOrdered, !multiple, tag > tracker.firstTag { isPassedOver = true }
        guard !isPassedOver else { return }
        tracker.answered(tag: tag, multiple: multiple, isRefusal: isRefusal, into: &settled)
        for item in settled { settle(item.entry, item.outcome) }
        settled.removeAll(keepingCapacity: true)
    }

    private func returned(_ message: RabbitMQReturn) {
        if let id = PushID(message.messageID) { tracker.returned(id) }
        core.logger.error(
            "The broker has no queue for a message",
            metadata: [LogKey.client: "\(core.settings.link.name)", LogKey.reason: "\(message.replyText)"])
    }

    private func blocked(_ reason: String) {
        isBlocked = true
        setState(.blocked)
        core.logger.warning(
            "The broker is short of resources", metadata: [LogKey.client: "\(core.settings.link.name)", LogKey.reason: "\(reason)"])
    }

    private func unblocked() {
        isBlocked = false
        mayConfirmSince = .now
        setState(.ready)
        core.logger.info("The broker takes messages again", metadata: [LogKey.client: "\(core.settings.link.name)"])
    }

    // MARK: Outcomes

    private var finishedMessages = 0
    private var finishedBytes = 0
    private var finishedConfirmed = 0
    private var finishedBatches: [Batch] = []

    private func settle(_ pending: Pending, _ outcome: PublishOutcome) {
        if outcome == .failed(.nacked) || outcome == .failed(.unroutable), let fallback = pending.fallback {
            core.metrics.count(outcome, 1)
            return backlog.append(fallback)
        }
        pending.batch.outcomes[pending.index] = outcome == .confirmed ? pending.confirmed : outcome
        pending.batch.missing -= 1
        finishedMessages += 1
        finishedBytes += pending.message.body.count
        if outcome.isConfirmed { finishedConfirmed += 1 } else { core.metrics.count(outcome, 1) }
        if pending.batch.missing == 0 { finishedBatches.append(pending.batch) }
    }

    /// Gives room back first, so that a caller that publishes from its completion finds it.
    private func report() {
        guard finishedMessages > 0 else { return }
        core.settled(messages: finishedMessages, bytes: finishedBytes)
        core.metrics.count(.confirmed, finishedConfirmed)
        finishedMessages = 0
        finishedBytes = 0
        finishedConfirmed = 0
        let batches = finishedBatches
        finishedBatches.removeAll(keepingCapacity: true)
        for batch in batches { batch.completion(batch.outcomes) }
    }
}
