package import Broker
package import Logging
package import Observability
import Postgres
import PushModel
import ServiceLifecycle
import SystemIO
import TokenServiceApps
package import TokenServiceEvents
package import TokenServiceKit
package import TokenServiceSending

/// Applies the messages of `push.outcomes.token-service` by ``OutcomeApplication``, then acknowledges them. If the process dies before the
/// acknowledgement, the broker delivers them again, and the second time changes nothing.
package final class OutcomeConsumer: Service {
    /// How many messages the broker may have outstanding here: bounds memory.
    package static let prefetch: UInt16 = 200
    /// Deliveries per transaction: short enough for the row locks, long enough for one commit to pay.
    private static let maximumBatch = 2000
    private static let maximumLinks = 16

    private let received: BatchQueue<ReceivedMessage>
    let consumer: Consumer
    let application: OutcomeApplication
    let deadLetters: DeadLetterPublisher
    private let brakes: BrakeWatch
    let webhooks: WebhookSubscriptions
    let channels: ChannelService
    let metrics: OutcomeMetrics
    private let traces: Traces
    private let relay: WorkSignal
    let logger: Logger
    private let writer: BatchWriter<OutcomeMessage>
    /// The dispatchers' credential reports. They are written down beside the outcomes.
    private let reports = BatchQueue<ReceivedMessage>()

    /// - Parameter received: The queue that `consumer` puts its messages into.
    package init(
        received: BatchQueue<ReceivedMessage>, consumer: Consumer, application: OutcomeApplication, deadLetters: DeadLetterPublisher,
        brakes: BrakeWatch, webhooks: WebhookSubscriptions, channels: ChannelService, metrics: OutcomeMetrics, traces: Traces,
        relay: WorkSignal,
        logger: Logger
    ) {
        self.received = received
        self.consumer = consumer
        self.application = application
        self.deadLetters = deadLetters
        self.brakes = brakes
        self.webhooks = webhooks
        self.channels = channels
        self.metrics = metrics
        self.traces = traces
        self.relay = relay
        self.logger = logger
        // In a shutdown the broker keeps the unacknowledged messages.
        writer = BatchWriter(lastAttempts: 1, notWritten: "Outcomes wait for the database", logger: logger)
    }

    /// Runs until graceful shutdown: then takes no more, applies what it has, and returns. Shut it down before `consumer`.
    package func run() async throws {
        await withGracefulShutdownHandler {
            async let _: Void = writer.tryLater { await self.applyInParts($0, othersAreWritten: $1) }
            async let _: Void = keepReports()
            await withTaskGroup(of: Void.self) { group in
                var batch = Batch()
                for await _ in received.wakeUps { await process(&batch, &group) }
                await process(&batch, &group)
            }
        } onGracefulShutdown: {
            self.consumer.stopTaking()
            self.received.close()
        }
    }

    /// Decoded messages that are not applied yet.
    private struct Batch {
        var messages: [OutcomeMessage] = []
        var size = 0
        var pace = OutcomePace(deliveries: maximumBatch / 2, messages: Int(prefetch) / 2)

        var pays: Bool { pace.pays(deliveries: size, messages: messages.count) }
    }

    /// Decode → apply → acknowledge. While one batch is applied, the next is decoded.
    private func process(_ batch: inout Batch, _ group: inout TaskGroup<Void>) async {
        await take(&batch, &group)
        if !batch.pays {
            // Messages that come meanwhile share its transaction.
            await group.waitForAll()
            let wait = batch.pace.wait(at: .now)
            if !batch.messages.isEmpty, wait > .zero { _ = await Pause.of(wait) }
            await take(&batch, &group)
        }
        if !batch.messages.isEmpty { await begin(&batch, &group) }
    }

    /// A message that cannot be decoded becomes a dead letter and stops no other.
    private func take(_ batch: inout Batch, _ group: inout TaskGroup<Void>) async {
        for message in received.takeAll() where !isOurs(message) {
            if message.routingKey == CredentialReport.routingKey {
                reports.put(message)
                continue
            }
            if message.routingKey == ChannelAnswer.routingKey {
                await applyChannelAnswer(message)
                continue
            }
            do throws(MessageError) {
                let event = try OutcomeEvent(decoding: message.body)
                batch.messages.append(OutcomeMessage(message, event))
                batch.size += event.deliveries.count
            } catch {
                metrics.undecodableOutcome()
                await deadLetter(message, reason: "undecodable_outcome", error: error)
            }
            if batch.size >= Self.maximumBatch { await begin(&batch, &group) }
        }
    }

    private func keepReports() async {
        for await _ in reports.wakeUps {
            for message in reports.takeAll() { await keep(message) }
        }
        // At a stop, for another process.
        consumer.giveBack(reports.takeAll().map(\.deliveryTag))
    }

    /// Drops a report that cannot be stored: another one follows within a minute.
    private func keep(_ message: ReceivedMessage) async {
        let report: CredentialReport
        do throws(MessageError) { report = try CredentialReport(decoding: message.body) } catch {
            metrics.undecodableOutcome()
            return await deadLetter(message, reason: "undecodable_credential_report", error: error)
        }
        do {
            try await application.pool.transaction { session in try CredentialReports(session: session).replace(by: report) }
        } catch {
            guard !Task.isCancelled else { return consumer.giveBack([message.deliveryTag]) }
            logger.failed("What a dispatcher says of its credentials could not be written down", error)
        }
        consumer.acknowledge([message.deliveryTag])
    }

    /// Applies one batch after the other, in the order in which they were reported.
    private func begin(_ batch: inout Batch, _ group: inout TaskGroup<Void>) async {
        let messages = batch.messages
        batch.messages = []
        batch.size = 0
        batch.pace.begin(at: .now)
        let outcomes = OutcomeBatch(messages.map(\.event))
        await group.waitForAll()
        group.addTask { await self.apply(messages, outcomes) }
    }

    /// A state change that this service itself has published, `<app>.<kind>.<event>`: it comes back if the queue is still bound to
    /// everything.
    private func isOurs(_ message: ReceivedMessage) -> Bool {
        guard message.routingKey.utf8.count(where: { $0 == UInt8(ascii: ".") }) == 2 else { return false }
        consumer.acknowledge([message.deliveryTag])
        return true
    }

    /// - Parameter outcomes: The content of all of the messages.
    private func apply(_ messages: [OutcomeMessage], _ outcomes: OutcomeBatch) async {
        let began = traces.isOn ? WallClock.nanoseconds() : 0
        var whole: OutcomeBatch? = outcomes
        let putOff = await writer.write(messages) { messages, _ in
            guard let outcomes = whole else { return await applyInParts(messages) }
            do {
                let effect = try await application.apply(outcomes)
                report(effect)
                if !effect.finished.isEmpty { writer.noteWritten() }
                for message in messages { message.markApplied() }
                if traces.isOn { traces.record(spans(of: messages, began: began)) }
            } catch {
                guard Refusal(error) != .outage else { return .init(waiting: messages, outage: error) }
                logger.failed("The database refuses a batch of outcomes; it is split", error, [LogKey.count: "\(messages.count)"])
            }
            whole = nil
            return await applyInParts(messages, isRefused: true)
        }
        guard putOff > 0, !Task.isCancelled else { return }
        logger.warning("Outcome messages are tried again beside the others", metadata: [LogKey.count: "\(putOff)"])
    }

    /// One for each sampled try. Those that shared the transaction are linked.
    private func spans(of messages: [OutcomeMessage], began: Int64) -> [Span] {
        var contexts: Set<TraceContext> = []
        for message in messages {
            for delivery in message.event.deliveries {
                if let context = traces.context(delivery.traceparent) { contexts.insert(context) }
            }
        }
        let end = WallClock.nanoseconds()
        return contexts.map { context in
            Span(
                "store outcomes", .consumer, context.child(), parent: context, start: began, end: end,
                [("messaging.system", .text("rabbitmq")), ("messaging.batch.message_count", .number(messages.count))],
                links: contexts.lazy.filter { $0 != context }.prefix(Self.maximumLinks).map(\.self))
        }
    }

    func deadLetter(_ message: ReceivedMessage, reason: String, error: any Error) async {
        guard !Task.isCancelled else { return consumer.giveBack([message.deliveryTag]) }
        logger.error(
            "An outcome message is given up",
            metadata: .traced(
                message.header(TraceContext.headerName),
                [LogKey.reason: "\(reason)", LogKey.error: "\(error)", LogKey.messageID: "\(message.messageID?.description ?? "none")"]))
        if await deadLetters.deadLetter(message, reason: reason) {
            consumer.acknowledge([message.deliveryTag])
        } else {
            consumer.giveBack([message.deliveryTag])
        }
    }

    func report(_ effect: OutcomeApplication.Effect) {
        metrics.applied(effect)
        if effect.released > 0 { relay.signal() }
        for app in brakes.note(braked: effect.braked, unbraked: effect.unbraked) {
            logger.error(
                "Too many tokens are rejected: none is retired until it is clear whose fault that is",
                metadata: [LogKey.app: "\(effect.names(of: [app]))"])
        }
        if effect.quarantined > 0 {
            logger.error(
                "Tokens that had been retired are in quarantine; pushctl quarantine restore brings them back",
                metadata: [LogKey.count: "\(effect.quarantined)", LogKey.apps: "\(effect.names(of: effect.braked))"])
        }
    }
}

extension OutcomeConsumer {
    /// Applies a dispatcher's answer about a broadcast channel. While the database is away it waits, as outcomes do.
    func applyChannelAnswer(_ message: ReceivedMessage) async {
        let answer: ChannelAnswer
        do throws(MessageError) { answer = try ChannelAnswer(decoding: message.body) } catch {
            metrics.undecodableOutcome()
            return await deadLetter(message, reason: "undecodable_channel_answer", error: error)
        }
        var (backOff, triesLeft) = (Duration.milliseconds(100), 5)
        while true {
            do {
                try await channels.apply(answer)
                break
            } catch {
                let refusal = Refusal(error)
                if refusal == .size { triesLeft -= 1 }
                guard refusal == .outage || refusal == .size && triesLeft > 0 else {
                    // The outcomes behind it do not wait. The command runs out of time, and the worker asks Apple again.
                    logger.failed("A dispatcher's answer about a channel could not be recorded", error)
                    break
                }
                logger.failed("A dispatcher's answer about a channel waits for the database", error)
                guard !Task.isShuttingDownGracefully, await Pause.of(backOff) else { return }
                backOff = min(backOff * 2, .seconds(5))
            }
        }
        consumer.acknowledge([message.deliveryTag])
    }
}

/// The attempts of the writer: one bad delivery, or a locked row, takes no other delivery with it.
extension OutcomeConsumer {
    /// Applies the unapplied deliveries of these messages, in as many parts as it takes; then queues webhooks and acknowledges.
    /// - Parameters:
    ///   - isRefused: The database refused all of them at once before.
    ///   - othersAreWritten: Since these messages were last tried.
    /// - Returns: The messages that have to be tried again, in this order.
    private func applyInParts(
        _ messages: [OutcomeMessage], isRefused: Bool = false, othersAreWritten: Bool = false
    ) async -> BatchSplit.Remains<OutcomeMessage> {
        let parts = await BatchSplit.write(
            messages.flatMap(\.unapplied), isRefused: isRefused, othersAreWritten: othersAreWritten
        ) { parts in
            let effect = try await application.apply(OutcomeBatch(OutcomeMessage.events(of: parts)))
            report(effect)
            for part in parts { part.message.markApplied(part.index) }
            guard !effect.finished.isEmpty else { return false }
            writer.noteWritten()
            return true
        }
        for (part, error) in parts.refused { await end(part, error) }

        // Before the acknowledgement: if the process dies in between, both are done again, and the ids are the same.
        let queued = await BatchSplit.write(messages.filter(\.isApplied)) { messages in
            let areQueued = try await webhooks.queue(messages.flatMap(\.outcomes))
            consumer.acknowledge(messages.map(\.message.deliveryTag))
            return areQueued
        }
        for (message, error) in queued.refused {
            logger.error(
                "An outcome message cannot be queued for webhooks; its outcomes are applied",
                metadata: .traced(
                    message.message.header(TraceContext.headerName),
                    [LogKey.messageID: "\(message.event.id)", LogKey.error: "\(Logger.cause(of: error))"]))
            consumer.acknowledge([message.message.deliveryTag])
        }
        var seen: Set<ObjectIdentifier> = []
        let unapplied = (parts.waiting.map(\.message) + messages).filter { !$0.isApplied && seen.insert(ObjectIdentifier($0)).inserted }
        return .init(waiting: unapplied + queued.waiting, outage: parts.outage ?? queued.outage)
    }

    /// The database refuses one delivery's outcome. The delivery gets an end that the sender can see; if the database refuses that too, the
    /// outcome goes to the dead letters.
    private func end(_ part: OutcomeMessage.Part, _ error: any Error) async {
        let event = part.event
        for substitute in event.substitutes {
            do {
                report(try await application.apply(OutcomeBatch([substitute])))
                metrics.refusedOutcome()
                log("PostgreSQL refuses an outcome; its delivery has the reason \(OutcomeEvent.notStored)", event, error)
                return part.message.markApplied(part.index, as: substitute)
            } catch {
                guard [.values, .fault].contains(Refusal(error)) else { return }
            }
        }
        if event.isFinal {
            let dead = event.substitutes[0].id
            guard await deadLetters.deadLetter(part.message.message, part: event.named(dead), reason: "unapplicable_outcome") else {
                return
            }
        }
        metrics.refusedOutcome()
        log("PostgreSQL refuses every outcome of a delivery; a final one is among the dead letters", event, error)
        var none = event
        none.deliveries = []
        part.message.markApplied(part.index, as: none)
    }

    /// Ids and classes only: a reason from outside may hold any text.
    private func log(_ text: Logger.Message, _ event: OutcomeEvent, _ error: any Error) {
        guard let delivery = event.deliveries.first else { return }
        logger.error(
            text,
            metadata: .traced(
                delivery.traceparent,
                [
                    LogKey.delivery: "\(delivery.id)", LogKey.notification: "\(delivery.notification)", LogKey.outcome: "\(event.outcome)",
                    LogKey.status: "\(delivery.status.map(String.init) ?? "none")", LogKey.error: "\(Logger.cause(of: error))",
                ]))
    }
}

extension OutcomeEvent {
    fileprivate func named(_ id: PushID) -> OutcomeEvent {
        var event = self
        event.id = id
        return event
    }
}
