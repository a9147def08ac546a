import Logging
import Metrics
import PushModel
import RabbitMQ
import Synchronization
import SystemIO

/// The publisher's thread: owns the connection, the backlog and the unconfirmed window. Single-threaded, hence plain variables.
///
/// A queue that does not answer delays its own messages only. A line is one destination (exchange and routing key). If an answer on a line
/// takes longer than ``answerTime``, the line is stalled: its unanswered messages leave the window, and no more are written, but go to their
/// next exchange, or wait. If the answer is still missing after the limit, the line goes aside: its messages go over a connection of their
/// own, because RabbitMQ loses some confirms for good, and because the first message of a channel to a queue that does not answer holds the
/// whole channel up for half a minute. Once a message of it is answered there, the line is well.
///
/// If no line is answered, the connection itself is given up, and the line of the oldest message goes aside.
final class PublisherLoop {
    /// One call to `publish`; its messages are answered one by one.
    private final class Batch {
        /// Since the last report.
        var answers: [PublishAnswer] = []
        let onAnswers: @Sendable ([PublishAnswer]) -> Void

        init(_ submission: PublisherCore.Submission) { onAnswers = submission.onAnswers }
    }

    private struct Destination: Hashable, CustomStringConvertible {
        let exchange: String
        let routingKey: String
        var description: String { exchange.isEmpty ? routingKey : "\(exchange) (\(routingKey))" }
    }

    private final class Line {
        let destination: Destination
        /// When an answer was found missing; nil: the line is well.
        var stalledAt: ContinuousClock.Instant?
        var isAside = false
        /// How many messages the other connection has.
        var aside = 0
        /// Wait until the line is well.
        var waiting: [Pending] = []

        init(_ destination: Destination) { self.destination = destination }
    }

    /// An object, because it moves from the backlog to the window and has many parts.
    private final class Pending {
        let message: OutgoingMessage
        let line: Line
        /// Nil: the publisher's own probe.
        let batch: Batch?
        let index: Int
        /// How it is confirmed.
        let confirmed: PublishOutcome
        /// Answered, or in other hands.
        var isOver = false

        init(_ message: OutgoingMessage, _ line: Line, batch: Batch?, index: Int, confirmed: PublishOutcome = .confirmed) {
            self.message = message
            self.line = line
            self.batch = batch
            self.index = index
            self.confirmed = confirmed
        }
    }

    /// How many are written before the broker's answers are read again.
    private static let burst = 64
    /// The broker answers a publish within this time as a rule.
    private static let answerTime = Duration.seconds(1)
    /// How often an unanswered message is looked at when nothing else happens.
    private static let lookInterval = Duration.milliseconds(250)
    /// Messages of one line that are aside at once.
    private static let mostAside = 64
    /// Lines that are kept though they are idle.
    private static let idleLines = 1_000

    private let core: PublisherCore
    private let link: BrokerLink
    private var backlog = FIFO<Pending>()
    private var tracker = ConfirmTracker<Pending>()
    private var lines: [Destination: Line] = [:]
    /// Of the last message: the next one often has the same.
    private var lastLine: Line?
    private var stalled: [Line] = []
    /// Has messages to queues that do not answer; a thread and a connection of its own, while there are any.
    private var aside: PublisherCore?
    private var atAside: [UInt64: Pending] = [:]
    private var lastTicket: UInt64 = 0
    /// Of the connection for messages aside: how often a limit has passed without any answer. Each new connection may store a message once
    /// more, so it comes later each time.
    private var fruitless = 0
    private static let asideLimits = [6, 12, 24, 48]
    /// When this connection last had an answer.
    private var lastAnswer = ContinuousClock.now
    private var events: [RabbitMQEvent] = []
    private var settled: [ConfirmTracker<Pending>.Settled] = []
    private var isBlocked = false
    /// False until this connection has had its first answer. The broker announces an alarm only to a connection that has published
    /// (docs/rabbitmq.md, Queues): a message that no queue gets tests that, instead of a window that would then wait in the socket until
    /// TCP_USER_TIMEOUT.
    private var isProven = false
    /// Why the connection is left as soon as no answer is on its way.
    private var leaveReason: String?
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
            report()
            if let stopAt, isOver(stopAt) { return }
            if let reconnectReason, link.connection != nil { leaveReason = reconnectReason }
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
        return (backlog.isEmpty && isAnswered && atAside.isEmpty && stalled.allSatisfy(\.waiting.isEmpty)) || .now >= stopAt
    }

    private var isAnswered: Bool { tracker.count == 0 && tracker.late.allSatisfy(\.isOver) }

    private func accept(_ input: PublisherCore.Input) {
        switch input {
        case .submission(let submission): accept(submission)
        case .aside(let ticket, let outcome): answeredAside(ticket, outcome)
        }
    }

    private func accept(_ submission: PublisherCore.Submission) {
        let batch = Batch(submission)
        for (index, message) in submission.messages.enumerated() {
            backlog.append(Pending(message, line(of: message), batch: batch, index: index))
        }
    }

    private func line(of message: OutgoingMessage) -> Line {
        if let lastLine, lastLine.destination.routingKey == message.routingKey, lastLine.destination.exchange == message.exchange {
            return lastLine
        }
        let destination = Destination(exchange: message.exchange, routingKey: message.routingKey)
        if lines.count > Self.idleLines { lines = lines.filter { $0.value.stalledAt != nil } }
        let line = lines[destination] ?? Line(destination)
        lines[destination] = line
        lastLine = line
        return line
    }

    // MARK: The next message

    /// The next message that may be written. Others are taken out of the backlog: those that were withdrawn, and those of stalled lines.
    private func next() -> Pending? {
        while let next = backlog.first {
            let isWithdrawn = next.message.withdrawal?.isMade == true
            if !isWithdrawn, next.line.stalledAt == nil || core.settings.isAside { return next }
            _ = backlog.popFirst()
            if isWithdrawn {
                settle(next, .failed(.withdrawn))
            } else if let other = elsewhere(next) {
                backlog.append(other)
            } else if next.line.isAside, next.line.aside < Self.mostAside {
                putAside(next)
            } else if next.line.waiting.count < core.settings.maximumPending / 10 {
                next.line.waiting.append(next)
            } else {
                settle(next, .failed(.stalled))
            }
        }
        return nil
    }

    /// The same message for the next of its exchanges, if there is one.
    /// - Parameter isRefused: the present one refused it.
    private func elsewhere(_ pending: Pending, isRefused: Bool = false) -> Pending? {
        guard let exchange = pending.message.fallbackExchanges.first else { return nil }
        var message = pending.message
        message.exchange = exchange
        message.fallbackExchanges.removeFirst()
        let confirmed = isRefused ? .confirmedElsewhere : pending.confirmed
        return Pending(message, line(of: message), batch: pending.batch, index: pending.index, confirmed: confirmed)
    }

    // MARK: Aside

    /// The line's messages go over another connection from now on.
    /// - Parameter unanswered: those that this one has.
    private func moveAside(_ line: Line, _ unanswered: [Pending]) {
        line.isAside = true
        let waiting = line.waiting
        line.waiting = []
        backlog.prepend(unanswered.filter { !$0.isOver }.map(again) + waiting)
        core.logger.warning(
            "A queue still does not answer: its messages go over another connection",
            metadata: [LogKey.client: "\(core.settings.link.name)", LogKey.queue: "\(line.destination)"])
    }

    /// The same message; an answer to the first one comes too late.
    private func again(_ pending: Pending) -> Pending {
        pending.isOver = true
        return Pending(pending.message, pending.line, batch: pending.batch, index: pending.index, confirmed: pending.confirmed)
    }

    private func putAside(_ pending: Pending) {
        if aside == nil { aside = startAside() }
        guard let aside else { return pending.line.waiting.append(pending) }
        lastTicket += 1
        let ticket = lastTicket
        atAside[ticket] = pending
        pending.line.aside += 1
        aside.submit([pending.message]) { [core] answers in for answer in answers { core.inbox.post(.aside(ticket, answer.outcome)) } }
    }

    /// - Returns: nil if the system starts no thread.
    private func startAside() -> PublisherCore? {
        do throws(SystemError) {
            let aside = try PublisherCore(settings: core.settings.aside, logger: core.logger)
            let logger = core.logger
            try SystemThread.start(name: aside.settings.link.name) {
                do { try PublisherLoop(aside).run() } catch {
                    logger.error("A publisher ended", metadata: [LogKey.client: "\(aside.settings.link.name)", LogKey.error: "\(error)"])
                }
            }
            return aside
        } catch {
            core.logger.error(
                "No other connection can be made", metadata: [LogKey.client: "\(core.settings.link.name)", LogKey.error: "\(error)"])
            return nil
        }
    }

    private func answeredAside(_ ticket: UInt64, _ outcome: PublishOutcome) {
        guard let pending = atAside.removeValue(forKey: ticket) else { return }
        pending.line.aside -= 1
        switch outcome {
        case .failed(.full), .failed(.stalled), .failed(.stopped):
            if pending.line.stalledAt == nil { backlog.append(pending) } else { pending.line.waiting.append(pending) }
        default:
            recovered(pending.line)
            settle(pending, outcome)
        }
    }

    private func recovered(_ line: Line) {
        guard line.stalledAt != nil else { return }
        putBack(line)
        core.logger.notice(
            "A queue answers again", metadata: [LogKey.client: "\(core.settings.link.name)", LogKey.queue: "\(line.destination)"])
    }

    /// The line's messages go over the connection again.
    private func putBack(_ line: Line) {
        line.stalledAt = nil
        line.isAside = false
        stalled.removeAll { $0 === line }
        backlog.prepend(line.waiting)
        line.waiting = []
        if stalled.isEmpty {
            aside?.stop(within: core.settings.confirmLimit)
            aside = nil
        }
        core.metrics.stalled.record(stalled.count)
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
                leaveReason = nil
                lastAnswer = .now
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
        let unanswered = tracker.reset().filter { $0.batch != nil && !$0.isOver }
        // RabbitMQ's channel works in order: if it stood still, then at the oldest message.
        let stoodStill = lastAnswer.duration(to: .now) > core.settings.confirmLimit && !core.settings.isOrdered && !core.settings.isAside
        let culprit = stoodStill ? unanswered.first?.line : nil
        // The next connection shows which of the others answer.
        for line in stalled where !line.isAside && line !== culprit { putBack(line) }
        backlog.prepend(unanswered.filter { $0.line !== culprit }.map(again))
        if let culprit {
            if culprit.stalledAt == nil { stall(culprit, at: .now) }
            moveAside(culprit, unanswered.filter { $0.line === culprit })
        }
        core.metrics.republished.increment(by: unanswered.count)
        return unanswered.count
    }

    private func lost(_ error: RabbitMQError) {
        let unconfirmed = leaveConnection()
        link.failed(error, unfinished: (LogKey.unconfirmed, unconfirmed))
    }

    /// The broker refused a message: over a new connection it may take it (``BrokerQuirks``).
    private func renew(_ connection: RabbitMQConnection) {
        renewal?.renewed()
        if tracker.isEmpty { connection.close() }
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
        var left = stalled.flatMap(\.waiting) + atAside.values
        (stalled, atAside) = ([], [:])
        aside?.stop(within: .zero)
        while let pending = backlog.popFirst() { left.append(pending) }
        return left
    }

    // MARK: One round

    private func exchange(_ connection: RabbitMQConnection, _ patience: Duration) {
        do throws(RabbitMQError) {
            // Before every burst: without it librabbitmq's publish may hang (docs/rabbitmq.md, Calls that hang).
            try connection.receive(into: &events)
            handleEvents()
            if tracker.count == 0, isRenewalDue || leaveReason != nil {
                report()
                if let leaveReason { return lost(.givenUp(because: leaveReason)) }
                return renew(connection)
            }
            try connection.leavingNodeOnFailure(checkConfirms)
            try publishBurst(connection)
            report()
            guard !canPublish else { return }
            let timeout = tracker.isEmpty ? patience : min(patience, Self.lookInterval)
            try connection.wait(orUntil: core.wakeUp.descriptor, timeout: timeout)
        } catch {
            report()
            lost(error)
        }
    }

    /// Finds lines that do not answer, and connections. A message that was lost with its confirmation is published again.
    private func checkConfirms() throws(RabbitMQError) {
        guard !isPassedOver else {
            throw RabbitMQError(.timedOut, "basic.publish", "the broker confirmed a message of a stream before an earlier one")
        }
        let now = ContinuousClock.now
        guard !isBlocked, mayConfirmSince.duration(to: now) > Self.answerTime else { return }
        tracker.setLateAside(since: now - Self.answerTime) { if !$0.isOver { stall($0.line, at: now) } }
        let limit = core.settings.confirmLimit * (core.settings.isAside ? Self.asideLimits[min(fruitless, Self.asideLimits.count - 1)] : 1)
        guard !tracker.isEmpty, let line = stalled.first(where: { !$0.isAside && isOverdue($0, now, limit - Self.answerTime) }) else {
            return
        }
        if core.settings.isAside {
            fruitless += 1
        } else if !core.settings.isOrdered, lastAnswer.duration(to: now) <= limit {
            return moveAside(line, tracker.late.filter { $0.line === line })
        }
        throw RabbitMQError(.timedOut, "basic.publish", "\(line.destination) has owed a confirmation for more than \(limit)")
    }

    private func isOverdue(_ line: Line, _ now: ContinuousClock.Instant, _ limit: Duration) -> Bool {
        line.stalledAt.map { $0.duration(to: now) > limit } ?? false
    }

    private func stall(_ line: Line, at now: ContinuousClock.Instant) {
        guard line.stalledAt == nil else { return }
        line.stalledAt = now
        stalled.append(line)
        core.metrics.stalled.record(stalled.count)
        core.logger.warning(
            "A queue does not answer: its messages wait or go elsewhere, all others go on",
            metadata: [LogKey.client: "\(core.settings.link.name)", LogKey.queue: "\(line.destination)"])
    }

    private var isRenewalDue: Bool { renewal?.isDue == true }

    private var canPublish: Bool {
        guard !isBlocked, !isRenewalDue, leaveReason == nil, let next = next() else { return false }
        if tracker.count == 0 { return isProven || tracker.isEmpty }
        return isProven && tracker.count < core.settings.window && tracker.bytes + next.message.body.count <= core.settings.windowBytes
    }

    private func publishBurst(_ connection: RabbitMQConnection) throws(RabbitMQError) {
        guard canPublish else { return }
        guard isProven else { return try prove(connection) }
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

    /// Publishes a message that no queue gets: the broker confirms it at once, whatever its queues do.
    private func prove(_ connection: RabbitMQConnection) throws(RabbitMQError) {
        let message = OutgoingMessage(
            exchange: "", routingKey: core.settings.link.topology.nobody, messageID: .random(), contentType: "text/plain", body: [],
            isMandatory: false)
        let probe = Pending(message, line(of: message), batch: nil, index: 0)
        tracker.published(probe, id: message.messageID, bytes: 0)
        try connection.publish(message.wireMessage, mandatory: false)
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
        lastAnswer = .now
        if isRefusal { renewal?.refused() }
        if core.settings.isOrdered, !multiple, tag > tracker.lowestTag { isPassedOver = true }
        guard !isPassedOver else { return }
        tracker.answered(tag: tag, multiple: multiple, isRefusal: isRefusal, into: &settled)
        for item in settled {
            if item.entry.batch != nil { fruitless = 0 }
            recovered(item.entry.line)
            settle(item.entry, item.outcome)
        }
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
        lastAnswer = .now
        for line in stalled { line.stalledAt = .now }
        setState(.ready)
        core.logger.info("The broker takes messages again", metadata: [LogKey.client: "\(core.settings.link.name)"])
    }

    // MARK: Outcomes

    private var finishedMessages = 0
    private var finishedBytes = 0
    private var finishedConfirmed = 0
    private var finishedBatches: [Batch] = []

    private func settle(_ pending: Pending, _ outcome: PublishOutcome) {
        guard let batch = pending.batch, !pending.isOver else { return }
        pending.isOver = true
        if outcome == .failed(.nacked) || outcome == .failed(.unroutable), let other = elsewhere(pending, isRefused: true) {
            core.metrics.count(outcome, 1)
            return backlog.append(other)
        }
        if batch.answers.isEmpty { finishedBatches.append(batch) }
        batch.answers.append(PublishAnswer(index: pending.index, outcome: outcome == .confirmed ? pending.confirmed : outcome))
        finishedMessages += 1
        finishedBytes += pending.message.body.count
        if outcome.isConfirmed { finishedConfirmed += 1 } else { core.metrics.count(outcome, 1) }
    }

    /// Gives room back first, so that a caller that publishes when it is called finds it.
    private func report() {
        guard finishedMessages > 0 else { return }
        core.settled(messages: finishedMessages, bytes: finishedBytes)
        core.metrics.count(.confirmed, finishedConfirmed)
        finishedMessages = 0
        finishedBytes = 0
        finishedConfirmed = 0
        let batches = finishedBatches
        finishedBatches.removeAll(keepingCapacity: true)
        for batch in batches {
            let answers = batch.answers
            batch.answers = []
            batch.onAnswers(answers)
        }
    }
}
