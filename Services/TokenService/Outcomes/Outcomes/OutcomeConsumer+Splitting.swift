import Broker
import Logging
import Observability
import Postgres
import PushModel
import ServiceLifecycle
import Synchronization
import TokenServiceEvents
import TokenServiceKit
import TokenServiceSending

/// The fallback if the database refuses a batch: one bad delivery, or a locked row, takes no other delivery with it.
extension OutcomeConsumer {
    /// Applies the unsettled deliveries of these messages, in as many parts as it takes; then queues webhooks and acknowledges.
    /// - Parameters:
    ///   - isRefused: The database refused all of it at once before.
    ///   - othersAreWritten: Since these messages were last tried.
    /// - Returns: those that have to be tried again later, in this order.
    func settle(
        _ messages: [OutcomeMessage], isRefused: Bool = false, othersAreWritten: Bool = false
    ) async -> [OutcomeMessage] {
        let parts = await BatchSplit.write(
            messages.flatMap(\.unsettled), isRefused: isRefused, othersAreWritten: othersAreWritten
        ) { parts in
            let effect = try await application.apply(OutcomeBatch(OutcomeMessage.events(of: parts)))
            report(effect)
            for part in parts { part.message.settle(part.index) }
            guard !effect.finished.isEmpty else { return false }
            written.add(1, ordering: .relaxed)
            return true
        }
        for (part, error) in parts.refused { await end(part, error) }

        // Before the acknowledgement: if the process dies in between, both are done again, and the ids are the same.
        let queued = await BatchSplit.write(messages.filter(\.isSettled)) { messages in
            let areQueued = try await webhooks.queue(messages.flatMap(\.outcomes))
            consumer.acknowledge(messages.map(\.message.receipt))
            return areQueued
        }
        for (message, error) in queued.refused {
            logger.error(
                "An outcome message cannot be queued for webhooks; its outcomes are applied",
                metadata: .traced(
                    message.message.header(TraceContext.headerName),
                    [LogKey.messageID: "\(message.event.id)", LogKey.error: "\(Logger.cause(of: error))"]))
            consumer.acknowledge([message.message.receipt])
        }
        var turns: [ObjectIdentifier: Int] = [:]
        for (turn, part) in parts.waiting.enumerated() where turns[ObjectIdentifier(part.message)] == nil {
            turns[ObjectIdentifier(part.message)] = turn
        }
        let unsettled = messages.filter { !$0.isSettled }.sorted {
            turns[ObjectIdentifier($0)] ?? .max < turns[ObjectIdentifier($1)] ?? .max
        }
        return unsettled + queued.waiting
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
                return part.message.settle(part.index, as: substitute)
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
        part.message.settle(part.index, as: none)
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

    /// Tries messages again, with growing pauses, while others are applied. The broker has all of them until they are acknowledged.
    func tryLater() async {
        for await _ in later.wakeUps {
            var (left, backOff) = (later.takeAll(), Duration.milliseconds(100))
            var before = written.load(ordering: .relaxed)
            while !left.isEmpty, await Pause.of(backOff), !Task.isShuttingDownGracefully {
                left = await settle(left, othersAreWritten: written.load(ordering: .relaxed) != before) + later.takeAll()
                before = written.load(ordering: .relaxed)
                backOff = min(backOff * 2, .seconds(5))
            }
        }
    }
}

extension OutcomeEvent {
    fileprivate func named(_ id: PushID) -> OutcomeEvent {
        var event = self
        event.id = id
        return event
    }
}
