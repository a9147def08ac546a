package import Broker
package import Logging
import Postgres
import PushModel
import ServiceLifecycle

/// `push.outcomes.token-service` → ``OutcomeApplication`` → acknowledged: whatever dies before the acknowledgement is delivered and
/// applied again, and changes nothing the second time.
package final class OutcomeConsumer: Service {
    /// How many messages the broker may have outstanding here: bounds memory.
    package static let prefetch: UInt16 = 200
    /// Deliveries per transaction: short enough for the row locks, long enough for one commit to pay.
    private static let maximumBatch = 2000

    private let received: Basket<ReceivedMessage>
    private let consumer: Consumer
    private let application: OutcomeApplication
    private let graveyard: Graveyard
    private let brakes: BrakeWatch
    private let webhooks: WebhookDirectory
    private let metrics: TokenServiceMetrics
    private let logger: Logger

    /// - Parameter received: What `consumer` puts its messages into.
    package init(
        received: Basket<ReceivedMessage>, consumer: Consumer, application: OutcomeApplication, graveyard: Graveyard,
        brakes: BrakeWatch, webhooks: WebhookDirectory, metrics: TokenServiceMetrics, logger: Logger
    ) {
        self.received = received
        self.consumer = consumer
        self.application = application
        self.graveyard = graveyard
        self.brakes = brakes
        self.webhooks = webhooks
        self.metrics = metrics
        self.logger = logger
    }

    /// Until graceful shutdown: then takes no more, applies what it has, and returns. To be shut down before `consumer`.
    package func run() async throws {
        await withGracefulShutdownHandler {
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

    private struct Readable {
        let message: ReceivedMessage
        let event: OutcomeEvent
    }

    /// What is decoded and not applied yet.
    private struct Batch {
        var messages: [Readable] = []
        var size = 0
        var pace = OutcomePace(deliveries: maximumBatch / 2, messages: Int(prefetch) / 2)

        var pays: Bool { pace.pays(deliveries: size, messages: messages.count) }
    }

    /// Decode → apply → acknowledge. While one batch is applied, the next is decoded.
    private func process(_ batch: inout Batch, _ group: inout TaskGroup<Void>) async {
        await take(&batch, &group)
        if !batch.pays {
            // What comes meanwhile shares its transaction.
            await group.waitForAll()
            let wait = batch.pace.wait(at: .now)
            if !batch.messages.isEmpty, wait > .zero { _ = await Pause.of(wait) }
            await take(&batch, &group)
        }
        if !batch.messages.isEmpty { await begin(&batch, &group) }
    }

    /// What cannot be decoded is buried and stops nothing.
    private func take(_ batch: inout Batch, _ group: inout TaskGroup<Void>) async {
        for message in received.takeAll() where !isOurs(message) {
            if message.routingKey == CredentialReport.routingKey {
                await keep(message)
                continue
            }
            do throws(MessageError) {
                let event = try OutcomeEvent(decoding: message.body)
                batch.messages.append(Readable(message: message, event: event))
                batch.size += event.deliveries.count
            } catch {
                metrics.undecodableOutcome()
                await bury(message, reason: "undecodable_outcome", error: error)
            }
            if batch.size >= Self.maximumBatch { await begin(&batch, &group) }
        }
    }

    /// A report that cannot be written down is dropped: another one follows within a minute.
    private func keep(_ message: ReceivedMessage) async {
        let report: CredentialReport
        do throws(MessageError) { report = try CredentialReport(decoding: message.body) } catch {
            metrics.undecodableOutcome()
            return await bury(message, reason: "undecodable_credential_report", error: error)
        }
        do {
            try await application.pool.transaction { session in try CredentialStore(session: session).replace(by: report) }
        } catch {
            logger.failed("What a dispatcher says of its credentials could not be written down", error)
        }
        consumer.acknowledge([message.receipt])
    }

    /// One after the other, in the order in which they were told.
    private func begin(_ batch: inout Batch, _ group: inout TaskGroup<Void>) async {
        let messages = batch.messages
        batch.messages = []
        batch.size = 0
        batch.pace.begin(at: .now)
        let outcomes = OutcomeBatch(messages.map(\.event))
        await group.waitForAll()
        group.addTask { await self.apply(messages, outcomes) }
    }

    /// A state change that this service itself has told, `<app>.<kind>.<event>`: it comes back where the queue is still bound to everything.
    private func isOurs(_ message: ReceivedMessage) -> Bool {
        guard message.routingKey.utf8.count(where: { $0 == UInt8(ascii: ".") }) == 2 else { return false }
        consumer.acknowledge([message.receipt])
        return true
    }

    private func apply(_ batch: [Readable], _ outcomes: OutcomeBatch) async {
        var backOff = Duration.milliseconds(100)
        while true {
            do {
                let effect = try await application.apply(outcomes)
                // Before the acknowledgement: cut short, both are done again, and the ids are the same.
                try await webhooks.queue(batch.map(\.event))
                report(effect)
                return consumer.acknowledge(batch.map(\.message.receipt))
            } catch let error as PostgresError where error.isUnavailable {
                logger.failed("Outcomes wait for the database", error, [LogKey.count: "\(batch.count)"])
                // In a shutdown the broker keeps them: not acknowledged is not lost.
                guard !Task.isShuttingDownGracefully, await Pause.of(backOff) else { return }
                backOff = min(backOff * 2, .seconds(5))
            } catch {
                return await isolate(batch, error: error)
            }
        }
    }

    /// One message that the database refuses must not keep the others from being applied.
    private func isolate(_ batch: [Readable], error: any Error) async {
        guard batch.count > 1 else {
            for readable in batch { await bury(readable.message, reason: "unapplicable_outcome", error: error) }
            return
        }
        for readable in batch { await apply([readable], OutcomeBatch([readable.event])) }
    }

    private func bury(_ message: ReceivedMessage, reason: String, error: any Error) async {
        logger.error(
            "An outcome message is given up",
            metadata: [
                LogKey.reason: "\(reason)", LogKey.error: "\(error)", LogKey.messageID: "\(message.messageID?.description ?? "none")",
            ])
        if await graveyard.bury(message, reason: reason) {
            consumer.acknowledge([message.receipt])
        } else {
            consumer.giveBack([message.receipt])
        }
    }

    private func report(_ effect: OutcomeApplication.Effect) {
        metrics.applied(effect)
        for app in brakes.note(braked: effect.braked, unbraked: effect.unbraked) {
            logger.error(
                "Too many tokens are rejected: none is retired until it is clear whose fault that is",
                metadata: [LogKey.appID: "\(app)"])
        }
        if effect.quarantined > 0 {
            logger.error(
                "Tokens that had been retired are in quarantine; pushctl quarantine restore brings them back",
                metadata: [LogKey.count: "\(effect.quarantined)", LogKey.appIDs: "\(effect.braked)"])
        }
    }
}
