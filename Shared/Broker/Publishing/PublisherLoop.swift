import Logging
import Metrics
import PushModel
import RabbitMQ
import Synchronization
import SystemIO

/// The publisher's thread: owns the connection, the backlog and the unconfirmed windows. Single-threaded, hence plain variables.
///
/// Each destination is a line with a channel of its own, because a queue that does not answer stops the channel that publishes to it, and
/// no other (docs/rabbitmq.md, A queue that stands still). If an answer takes longer than ``answerTime`` while others come, or
/// ``silentTime``, the line is stalled: its messages go to their next exchange, or wait. If the answer is still missing after the limit,
/// RabbitMQ may have lost it: the line gets another channel, which publishes one message until the queue answers. If no line had an answer
/// for about as long as the limit, the publisher gives the connection up.
final class PublisherLoop {
    /// One call to `publish`; its messages are answered one by one.
    private final class Batch {
        /// The answers since the last report.
        var answers: [PublishAnswer] = []
        let onAnswers: @Sendable ([PublishAnswer]) -> Void

        init(_ submission: PublisherCore.Submission) { onAnswers = submission.onAnswers }
    }

    /// An object, because channels that were given up and the backlog may have it at once.
    private final class Pending {
        var message: OutgoingMessage
        let batch: Batch
        let index: Int
        /// How it is confirmed.
        var confirmed = PublishOutcome.confirmed
        /// It is in a backlog.
        var waits = false
        var isAnswered = false

        init(_ message: OutgoingMessage, _ batch: Batch, _ index: Int) {
            self.message = message
            self.batch = batch
            self.index = index
        }
    }

    private final class Channel {
        let number: UInt16
        var tracker = ConfirmTracker<Pending>()
        /// The queue has answered over this channel. Until then the channel has one message at a time: the broker announces an alarm only
        /// to a connection that has published (docs/rabbitmq.md, Queues), and a whole window would wait in the socket until
        /// TCP_USER_TIMEOUT.
        var isProven = false
        var answeredAt = ContinuousClock.now

        init(_ number: UInt16) { self.number = number }
    }

    private final class Line {
        let name: String
        var backlog = FIFO<Pending>()
        var channel: Channel?
        /// Channels that still owe answers, which may come.
        var givenUp: [Channel] = []
        /// How many were given up since the last answer.
        var fruitless = 0
        var isStalled = false
        var recoveredAt: ContinuousClock.Instant?
        var isBusy = false
        /// Nil if the broker's version makes another channel needless after a refusal.
        var renewal: RenewalDelay?

        init(_ name: String) { self.name = name }

        var hasUnanswered: Bool { channel.map { $0.tracker.count > 0 } ?? false }
    }

    private struct Destination: Hashable {
        let exchange: String
        let key: String
    }

    /// How many are written before the broker's answers are read again.
    private static let burst = 64
    /// The broker answers a publish within this time as a rule.
    private static let answerTime = Duration.seconds(1)
    /// A connection on which nothing is answered may be at fault, and says nothing about a queue: the loss of a node shows after eight
    /// seconds.
    private static let silentTime = Duration.seconds(9)
    /// How often an unanswered message is looked at when nothing else happens.
    private static let lookInterval = Duration.milliseconds(250)
    /// Lines of one exchange. Further destinations share them.
    private static let mostLines = 8
    /// Channels of one line that may still answer.
    private static let mostGivenUp = 4
    /// Each new channel may store one message once more, so it comes later each time.
    private static let limitFactors = [1, 6, 12, 24, 48]
    /// The factors of the limit where order counts: for the first connection, the second, and all later ones until one answers. The next
    /// node often does so at once.
    private static let orderedLimitFactors = [1, 2, 4]

    private let core: PublisherCore
    private let link: BrokerLink
    private var lines: [Destination: Line] = [:]
    private var linesOfExchange: [String: [Line]] = [:]
    /// The line of the last message: the next one often has the same.
    private var last: (exchange: String, routingKey: String, line: Line)?
    /// The lines with work.
    private var busy: [Line] = []
    /// The channels of this connection, by number.
    private var channels: [UInt16: (line: Line, channel: Channel)] = [:]
    /// Messages that were taken and have no outcome.
    private var open = 0
    private var stalledLines = 0
    /// The last connection was given up because of this one, which has not answered since.
    private var silentLine: Line?
    /// When the outage began. A connection ends it with an answer, or when nothing waits: one after the other may open and break at once.
    private var disconnectedSince: ContinuousClock.Instant? = .now
    /// When this connection last had an answer.
    private var lastAnswer = ContinuousClock.now
    /// The first answer after a silence of ``answerTime``.
    private var answeringSince = ContinuousClock.now
    private var events: [RabbitMQEvent] = []
    private var settled: [ConfirmTracker<Pending>.Settled] = []
    private var isBlocked = false
    /// A refusal may be the channel's fault (``BrokerQuirks``).
    private var renewsChannels = false
    /// Why the connection is left as soon as no answer is on its way.
    private var leaveReason: String?
    /// A confirmation came for a message behind one that has none.
    private var isPassedOver = false
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
            if open == 0, link.connection != nil { disconnectedSince = nil }
            core.inbox.takeAll().forEach(accept)
            giveUpAfterOutage()
            let (stopAt, reconnectReason, pending) = core.status.withLock { ($0.stopAt, $0.reconnectReason.take(), $0.pending) }
            core.metrics.pending.record(pending)
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
        return open == 0 || .now >= stopAt
    }

    // MARK: Lines

    private func accept(_ submission: PublisherCore.Submission) {
        let batch = Batch(submission)
        open += submission.messages.count
        for (index, message) in submission.messages.enumerated() { enqueue(Pending(message, batch, index)) }
    }

    private func line(of message: OutgoingMessage) -> Line {
        if let last, last.routingKey == message.routingKey, last.exchange == message.exchange { return last.line }
        let line = findLine(message)
        last = (message.exchange, message.routingKey, line)
        return line
    }

    /// Finds the line by the exchange, and what the routing key begins with: a lane or an app. The default exchange's routing keys are
    /// queues.
    private func findLine(_ message: OutgoingMessage) -> Line {
        if core.settings.isOrdered, let only = lines.values.first { return only }
        let key = message.exchange.isEmpty ? message.routingKey : String(message.routingKey.prefix { $0 != "." })
        let destination = Destination(exchange: message.exchange, key: key)
        if let line = lines[destination] { return line }
        let siblings = linesOfExchange[message.exchange, default: []]
        guard siblings.count < Self.mostLines else {
            // FNV-1a: a destination keeps its line, and no table grows with the apps.
            let hash = key.utf8.reduce(0xcbf2_9ce4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
            return siblings[Int(hash % UInt64(siblings.count))]
        }
        let line = Line(message.exchange.isEmpty ? key : "\(message.exchange) (\(key))")
        lines[destination] = line
        linesOfExchange[message.exchange, default: []].append(line)
        return line
    }

    /// A stalled line takes one message that may go elsewhere, to find out whether its queue answers again.
    private func enqueue(_ pending: Pending) {
        let line = line(of: pending.message)
        if line.isStalled {
            let isTried = !line.backlog.isEmpty || line.hasUnanswered
            if isTried, moveOn(pending) { return }
            if line.backlog.count >= core.settings.maximumPending / 10 { return settle(pending, .failed(.stalled)) }
        }
        pending.waits = true
        line.backlog.append(pending)
        work(on: line)
    }

    private func work(on line: Line) {
        guard !line.isBusy else { return }
        line.isBusy = true
        busy.append(line)
    }

    /// The message goes to the next of its exchanges.
    /// - Parameter isRefused: the present one refused it.
    /// - Returns: false if there is none.
    private func moveOn(_ pending: Pending, isRefused: Bool = false) -> Bool {
        guard let exchange = pending.message.fallbackExchanges.first else { return false }
        pending.message.exchange = exchange
        pending.message.fallbackExchanges.removeFirst()
        if isRefused { pending.confirmed = .confirmedElsewhere }
        enqueue(pending)
        return true
    }

    private func stall(_ line: Line) {
        line.isStalled = true
        core.logger.warning(
            "A queue does not answer: its messages wait or go elsewhere, all others go on",
            metadata: [BrokerLogKey.client: "\(core.settings.link.name)", BrokerLogKey.queue: "\(line.name)"])
        enqueueAgain(line)
    }

    private func enqueueAgain(_ line: Line) {
        var waiting: [Pending] = []
        while let pending = line.backlog.popFirst() { waiting.append(pending) }
        for pending in waiting { enqueue(pending) }
    }

    /// Lines that owe something.
    private func countStalled() {
        setStalled(busy.count { ($0.isStalled || $0 === silentLine) && (!$0.backlog.isEmpty || $0.hasUnanswered) })
    }

    private func setStalled(_ count: Int) {
        guard count != stalledLines else { return }
        stalledLines = count
        core.status.withLock { $0.stalledLines = count }
        core.metrics.stalled.record(count)
    }

    private func recovered(_ line: Line) {
        line.fruitless = 0
        if !line.givenUp.isEmpty, line.recoveredAt == nil { line.recoveredAt = .now }
        guard line.isStalled || line === silentLine else { return }
        line.isStalled = false
        if line === silentLine { silentLine = nil }
        core.logger.notice(
            "A queue answers again", metadata: [BrokerLogKey.client: "\(core.settings.link.name)", BrokerLogKey.queue: "\(line.name)"])
    }

    // MARK: Connection

    private func connect() {
        do throws(RabbitMQError) {
            try link.connect { () throws(RabbitMQError) in
                if let stopAt = core.status.withLock({ $0.stopAt }), isOver(stopAt) { throw .stopped }
            } prepare: { connection throws(RabbitMQError) in
                renewsChannels = try BrokerQuirks.refusesWhileLeaderIsLost(connection)
            } opened: {
                isBlocked = false
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

    /// Gives up every message that waits, so that another process can publish it.
    private func giveUpAfterOutage() {
        guard open > 0, link.connection == nil, let limit = core.settings.outageLimit, let since = disconnectedSince,
            since.duration(to: .now) > limit
        else { return }
        core.logger.warning(
            "Messages are given up: no connection to the broker had an answer for too long",
            metadata: [BrokerLogKey.client: "\(core.settings.link.name)", BrokerLogKey.unconfirmed: "\(open)"])
        answerWaiting(.disconnected)
    }

    /// Answers the messages that wait: without a connection, every message that has no outcome waits in a line.
    private func answerWaiting(_ failure: PublishFailure) {
        for line in linesOfExchange.values.joined() {
            while let pending = line.backlog.popFirst() { answer(pending, .failed(failure)) }
        }
    }

    private func lost(_ error: RabbitMQError) {
        disconnectedSince = disconnectedSince ?? .now
        // Without a connection nothing is known of queues.
        if link.connection == nil { silentLine = nil }
        setStalled(silentLine == nil ? 0 : 1)
        link.leave()
        setState(.connecting)
        var unanswered = 0
        for line in linesOfExchange.values.joined() {
            // Of the others nothing is known but that this connection did not answer.
            if line.givenUp.isEmpty { line.isStalled = false }
            unanswered += takeBack(line)
            line.givenUp = []
            // The next connection goes to another node, as a rule. Where order counts, a queue that is slow on every node must get its
            // time.
            if !core.settings.isOrdered { line.fruitless = 0 }
        }
        channels = [:]
        // They belong to this connection: a `blocked` among them would stop the next one.
        events.removeAll()
        core.metrics.republished.increment(by: unanswered)
        link.failed(error, unfinished: (BrokerLogKey.unconfirmed, unanswered))
    }

    /// The line's unanswered messages come before its others, over its next channel; or, if an answer was overdue, they go elsewhere.
    /// - Returns: how many messages.
    private func takeBack(_ line: Line) -> Int {
        var unanswered: [Pending] = []
        var staying: [Pending] = []
        for channel in line.givenUp + (line.channel.map { [$0] } ?? []) {
            // What has moved to another line is taken back from that one.
            for (pending, since) in channel.tracker.unanswered
            where !pending.isAnswered && !pending.waits && self.line(of: pending.message) === line {
                pending.waits = true
                unanswered.append(pending)
                // One that was written a moment ago may be answered yet.
                if line.fruitless == 0 || since.duration(to: .now) < Self.answerTime || !moveOn(pending) { staying.append(pending) }
            }
        }
        line.channel = nil
        // The next channel is another one anyway.
        if line.renewal?.isDue == true { line.renewal?.renewed() }
        line.backlog.prepend(staying)
        if line.isStalled { enqueueAgain(line) }
        if !line.backlog.isEmpty { work(on: line) }
        return unanswered.count
    }

    private func setState(_ state: PublisherState) {
        core.status.withLock {
            $0.state = state
            $0.peer = link.connection?.peer
        }
        core.metrics.blocked.record(state == .blocked ? 1 : 0)
    }

    private func end() {
        // Closes properly only if every message is confirmed; else the broker notices by itself.
        if open == 0 { link.connection?.close() }
        link.leave()
        setState(.stopped)
        // A late submission that slipped in while the loop ended.
        core.inbox.close().forEach(accept)
        for line in linesOfExchange.values.joined() {
            for channel in line.givenUp + (line.channel.map { [$0] } ?? []) {
                for (pending, _) in channel.tracker.unanswered { answer(pending, .failed(.stopped)) }
            }
        }
        answerWaiting(.stopped)
        setStalled(0)
        report()
    }

    // MARK: One round

    private func exchange(_ connection: RabbitMQConnection, _ patience: Duration) {
        do throws(RabbitMQError) {
            // Before every burst: without it librabbitmq's publish may hang (docs/rabbitmq.md, Calls that hang).
            try connection.receive(into: &events)
            handleEvents()
            if let leaveReason, !busy.contains(where: { $0.hasUnanswered && !$0.isStalled }) {
                throw RabbitMQError.givenUp(because: leaveReason)
            }
            try connection.leavingNodeOnFailure { () throws(RabbitMQError) in try lookForLateAnswers(connection) }
            // The broker reads nothing more, during an alarm, once a message was published: an open channel comes first.
            for line in busy {
                try renewChannel(of: line, connection)
                if line.channel == nil, canPublish(line) { try openChannel(for: line, connection) }
            }
            for line in busy { try publishBurst(of: line, connection) }
            countStalled()
            busy.removeAll { line in
                line.isBusy = !line.backlog.isEmpty || line.hasUnanswered || !line.givenUp.isEmpty
                return !line.isBusy
            }
            report()
            guard !busy.contains(where: canPublish) else { return }
            try connection.wait(orUntil: core.wakeUp.descriptor, timeout: busy.isEmpty ? patience : min(patience, Self.lookInterval))
        } catch {
            // Answers may have come together with the end. A second error says nothing new.
            _ = try? connection.receive(into: &events)
            handleEvents()
            report()
            lost(error)
        }
    }

    /// Finds lines that do not answer, and connections. A message that was lost with its confirmation is published again.
    private func lookForLateAnswers(_ connection: RabbitMQConnection) throws(RabbitMQError) {
        guard !isPassedOver else {
            throw RabbitMQError(.timedOut, "basic.publish", "the broker confirmed a message of a stream before an earlier one")
        }
        guard !isBlocked else { return }
        let now = ContinuousClock.now
        for line in busy {
            if let recoveredAt = line.recoveredAt, recoveredAt.duration(to: now) > Self.answerTime { try forgetGivenUp(line, connection) }
            guard let channel = line.channel, let published = channel.tracker.oldest else { continue }
            let since = max(published, mayConfirmSince, line.recoveredAt ?? published)
            let late = max(since, channel.answeredAt, answeringSince).duration(to: now)
            if late > (lastAnswer > since ? Self.answerTime : Self.silentTime), !line.isStalled, !core.settings.isOrdered { stall(line) }
            guard since.duration(to: now) > limit(of: line, channel) else { continue }
            line.fruitless += 1
            let isAlone = lastAnswer.duration(to: now) > core.settings.confirmLimit - Self.answerTime
            guard !core.settings.isOrdered, !isAlone else {
                if !core.settings.isOrdered { silentLine = line }
                throw RabbitMQError(
                    .timedOut, "basic.publish", "\(line.name) owes a confirmation, and nothing else was confirmed meanwhile")
            }
            try replaceChannel(of: line, connection)
        }
    }

    /// A message that another exchange takes never waits longer than the first limit.
    private func limit(of line: Line, _ channel: Channel) -> Duration {
        let mayGoElsewhere = channel.tracker.unanswered.first { _ in true }?.entry.message.fallbackExchanges.isEmpty == false
        let factors = core.settings.isOrdered ? Self.orderedLimitFactors : Self.limitFactors
        return core.settings.confirmLimit * (mayGoElsewhere ? 1 : factors[min(line.fruitless, factors.count - 1)])
    }

    private func replaceChannel(of line: Line, _ connection: RabbitMQConnection) throws(RabbitMQError) {
        guard let channel = line.channel else { return }
        let unanswered = takeBack(line)
        line.givenUp.append(channel)
        line.recoveredAt = nil
        if line.givenUp.count > Self.mostGivenUp { try close(line.givenUp.removeFirst(), connection) }
        work(on: line)
        core.metrics.republished.increment(by: unanswered)
        core.logger.warning(
            "A queue still does not answer: its messages go over another channel",
            metadata: [
                BrokerLogKey.client: "\(core.settings.link.name)", BrokerLogKey.queue: "\(line.name)",
                BrokerLogKey.unconfirmed: "\(unanswered)",
            ])
    }

    /// The queue answers over another channel, and has had the time to answer over these.
    private func forgetGivenUp(_ line: Line, _ connection: RabbitMQConnection) throws(RabbitMQError) {
        line.recoveredAt = nil
        for channel in line.givenUp { try close(channel, connection) }
        line.givenUp = []
    }

    private func close(_ channel: Channel, _ connection: RabbitMQConnection) throws(RabbitMQError) {
        channels[channel.number] = nil
        try connection.closeChannel(channel.number)
    }

    /// The line's next message that is to be written.
    private func next(of line: Line) -> Pending? {
        while let next = line.backlog.first {
            if !next.isAnswered, next.message.withdrawal?.isMade != true { return next }
            _ = line.backlog.popFirst()
            next.waits = false
            settle(next, .failed(.withdrawn))
        }
        return nil
    }

    private func canPublish(_ line: Line) -> Bool {
        guard !isBlocked, leaveReason == nil, line.renewal?.isDue != true, let next = next(of: line) else { return false }
        guard let channel = line.channel, channel.tracker.count > 0 else { return true }
        return channel.isProven && !line.isStalled && line.givenUp.isEmpty && channel.tracker.span < core.settings.window
            && channel.tracker.bytes + next.message.body.count <= core.settings.windowBytes
    }

    private func publishBurst(of line: Line, _ connection: RabbitMQConnection) throws(RabbitMQError) {
        guard let channel = line.channel, canPublish(line) else { return }
        let isBurst = line.backlog.count > 1
        if isBurst { connection.holdSegments(true) }
        defer { if isBurst { connection.holdSegments(false) } }
        for _ in 0..<Self.burst {
            guard canPublish(line), let next = line.backlog.popFirst() else { return }
            next.waits = false
            let message = next.message.wireMessage
            guard message.isEncodable else {
                settle(next, .failed(.invalid))
                continue
            }
            // Before the write: a message whose write failed half way is unconfirmed too.
            channel.tracker.published(next, id: next.message.messageID, bytes: message.body.count)
            try connection.publish(message, mandatory: next.message.isMandatory, over: channel.number)
        }
    }

    private func openChannel(for line: Line, _ connection: RabbitMQConnection) throws(RabbitMQError) {
        link.passed()
        let channel = Channel(try connection.openPublishingChannel())
        line.channel = channel
        if !renewsChannels { line.renewal = nil } else if line.renewal == nil { line.renewal = RenewalDelay() }
        channels[channel.number] = (line, channel)
    }

    /// The broker refused a message: over a new channel it may take it (``BrokerQuirks``).
    private func renewChannel(of line: Line, _ connection: RabbitMQConnection) throws(RabbitMQError) {
        guard line.renewal?.isDue == true, let channel = line.channel, channel.tracker.count == 0 else { return }
        line.renewal?.renewed()
        line.channel = nil
        try close(channel, connection)
        core.logger.info(
            "The broker refuses messages: trying another channel",
            metadata: [BrokerLogKey.client: "\(core.settings.link.name)", BrokerLogKey.queue: "\(line.name)"])
    }

    // MARK: Answers

    private func handleEvents() {
        for event in events {
            switch event {
            case .confirmed(let tag, let multiple, let number): answered(tag, multiple, isRefusal: false, over: number)
            case .refused(let tag, let multiple, let number): answered(tag, multiple, isRefusal: true, over: number)
            case .returned(let message): returned(message)
            case .blocked(let reason): blocked(reason)
            case .unblocked: unblocked()
            case .delivery, .consumerCancelled: break
            }
        }
        events.removeAll(keepingCapacity: true)
    }

    private func answered(_ tag: UInt64, _ multiple: Bool, isRefusal: Bool, over number: UInt16) {
        guard let (line, channel) = channels[number] else { return }
        if core.settings.isOrdered, !multiple, tag > channel.tracker.firstTag { isPassedOver = true }
        guard !isPassedOver else { return }
        let now = ContinuousClock.now
        if lastAnswer.duration(to: now) > Self.answerTime { answeringSince = now }
        lastAnswer = now
        if !isRefusal { disconnectedSince = nil }
        let isCurrent = channel === line.channel
        if isRefusal, isCurrent { line.renewal?.refused() }
        // Such a refusal says nothing about the queue: a channel that waited a minute for it in vain refuses the message by itself.
        if !isRefusal || !line.isStalled {
            channel.isProven = true
            channel.answeredAt = lastAnswer
            recovered(line)
        }
        channel.tracker.answered(tag: tag, multiple: multiple, isRefusal: isRefusal, into: &settled)
        for item in settled where isCurrent || item.outcome.isConfirmed { settle(item.entry, item.outcome) }
        settled.removeAll(keepingCapacity: true)
    }

    private func returned(_ message: RabbitMQReturn) {
        if let id = PushID(message.messageID) { channels[message.channel]?.channel.tracker.returned(id) }
        core.logger.error(
            "The broker has no queue for a message",
            metadata: [BrokerLogKey.client: "\(core.settings.link.name)", BrokerLogKey.reason: "\(message.replyText)"])
    }

    private func blocked(_ reason: String) {
        isBlocked = true
        setState(.blocked)
        core.logger.warning(
            "The broker is short of resources",
            metadata: [BrokerLogKey.client: "\(core.settings.link.name)", BrokerLogKey.reason: "\(reason)"])
    }

    private func unblocked() {
        isBlocked = false
        lastAnswer = .now
        mayConfirmSince = .now
        setState(.ready)
        core.logger.info("The broker takes messages again", metadata: [BrokerLogKey.client: "\(core.settings.link.name)"])
    }

    // MARK: Outcomes

    private var finishedMessages = 0
    private var finishedBytes = 0
    private var finishedConfirmed = 0
    private var finishedBatches: [Batch] = []

    private func settle(_ pending: Pending, _ outcome: PublishOutcome) {
        guard !pending.isAnswered else { return }
        if outcome == .failed(.nacked) || outcome == .failed(.unroutable), moveOn(pending, isRefused: true) {
            return core.metrics.count(outcome, 1)
        }
        answer(pending, outcome)
    }

    private func answer(_ pending: Pending, _ outcome: PublishOutcome) {
        guard !pending.isAnswered else { return }
        pending.isAnswered = true
        open -= 1
        let batch = pending.batch
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
