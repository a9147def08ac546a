import Glibc
import PushModel

@testable import APNs
@testable import Broker
@testable import Dispatcher

/// Performs the effects of the core and checks them against its promises.
extension SimulatedWorld {
    mutating func perform() {
        for action in core.takeActions() {
            switch action {
            case .submit(let batch, let pool): pools[pool].submit(batch, at: now)
            case .publish(let number, let messages):
                for message in messages { check(message) }
                publishing.append((number, messages.enumerated().map { (index: $0, message: $1) }))
            case .publishMarker(let marker, let message): markers.append((marker, message))
            case .reconnectControl: isToReconnectControl = true
            case .acknowledge(_, let deliveryTags): for deliveryTag in deliveryTags { acknowledge(deliveryTag) }
            case .giveBack(_, let deliveryTags): for deliveryTag in deliveryTags { takeBack(deliveryTag) }
            case .discard(_, let deliveryTags): for deliveryTag in deliveryTags { discard(deliveryTag) }
            case .startTaking: isTaking = true
            case .stopTaking: isTaking = false
            case .shutDownPools: for pool in pools.indices { pools[pool].shutDown(at: now) }
            case .retirePools(let numbers): for number in numbers { retire(number) }
            case .acknowledgeControl, .reconnectPublisher, .note: break
            }
        }
    }

    // MARK: Receipts

    private mutating func acknowledge(_ deliveryTag: DeliveryTag) {
        guard let stored = unacknowledged.removeValue(forKey: deliveryTag) else {
            return breach("\(deliveryTag) acknowledged although it is not outstanding")
        }
        guard let delivered = stored.deliveries else {
            if !dead.contains(where: { $0.body == stored.body }) { breach("poison acknowledged before its dead letter was confirmed") }
            return
        }
        for delivery in delivered where !isAccountedFor(delivery) {
            breach("\(deliveryTag) acknowledged before delivery \(delivery.low) was confirmed anywhere")
        }
    }

    /// True if it has a confirmed outcome or lives on in a message that the broker has.
    func isAccountedFor(_ delivery: PushID) -> Bool {
        if let account = deliveries[delivery], account.confirmedFinals + account.waitingFinals > 0 { return true }
        return isStored(delivery)
    }

    private func isStored(_ delivery: PushID) -> Bool {
        func holds(_ message: StoredMessage) -> Bool { message.deliveries?.contains(delivery) ?? false }
        return ready.contains(where: holds) || delayed.contains { holds($0.message) } || unacknowledged.values.contains(where: holds)
    }

    /// The broker has it, or gets it.
    func isElsewhere(_ delivery: PushID) -> Bool {
        isStored(delivery)
            || publishing.contains {
                $0.messages.contains { index, message in
                    (try? PushJob(decoding: message.body))?.deliveries.contains { $0.id == delivery } ?? false
                }
            }
    }

    private mutating func takeBack(_ deliveryTag: DeliveryTag) {
        guard let stored = unacknowledged.removeValue(forKey: deliveryTag) else {
            return breach("\(deliveryTag) given back although it is not outstanding")
        }
        for delivery in stored.deliveries ?? [] where deliveries[delivery]?.mayBeSent == false && deliveries[delivery]?.isForked == false {
            breach("\(deliveryTag) given back although delivery \(delivery.low) was sent")
        }
        ready.append(stored)
    }

    // MARK: Publishing

    /// Called when the core hands over a message.
    private mutating func check(_ message: OutgoingMessage) {
        let isRetry = message.exchange.hasPrefix("push.retry.") || message.exchange == topology.jobsExchange
        guard isRetry, let retry = try? PushJob(decoding: message.body) else { return }
        if retry.deliveries.isEmpty { breach("a retry without deliveries") }
        for delivery in retry.deliveries {
            if let account = deliveries[delivery.id], !account.mayBeSent, !account.isForked {
                breach("delivery \(delivery.id.low) is retried though it is done")
            }
            refusals[delivery.id] = nil
        }
        if message.routingKey != retry.lane.rawValue { breach("a retry changed its lane") }
        if message.headers["traceparent"] == nil { breach("a retry lost its trace") }
    }

    /// The broker dead-letters it.
    private mutating func discard(_ deliveryTag: DeliveryTag) {
        guard let stored = unacknowledged.removeValue(forKey: deliveryTag) else {
            return breach("\(deliveryTag) discarded although it is not outstanding")
        }
        if stored.deliveries != nil { breach("\(deliveryTag) discarded although it is a job") }
        dead.append(stored)
    }

    mutating func settlePublication() {
        if isToReconnectControl { reconnectControl() }
        if !markers.isEmpty, publishing.isEmpty || roll(2) == 0 { return settleMarker() }
        guard !publishing.isEmpty else { return }
        let place = roll(publishing.count)
        // Messages are answered singly; as a rule all of a publication come together.
        let count = roll(3) > 0 ? publishing[place].messages.count : 1
        let (number, messages) = (publishing[place].number, publishing[place].messages.prefix(count))
        publishing[place].messages.removeFirst(count)
        if publishing[place].messages.isEmpty { publishing.remove(at: place) }
        handle(.published(number, messages.map { PublishAnswer(index: $0.index, outcome: publish($0.message)) }))
    }

    private mutating func publish(_ message: OutgoingMessage) -> PublishOutcome {
        if message.withdrawal?.isMade == true { return .failed(.withdrawn) }
        var other = message
        while !takes(other) {
            guard let next = other.fallbackExchanges.first else { return .failed(.nacked) }
            other.exchange = next
            other.fallbackExchanges.removeFirst()
        }
        store(other)
        return other == message ? .confirmed : .confirmedElsewhere
    }

    /// Except in busy times, the broker sometimes refuses a message.
    private mutating func takes(_ message: OutgoingMessage) -> Bool {
        guard roll(12) > 0 || crowded != nil else { return false }
        switch message.exchange {
        case topology.outcomesExchange: return !refusesOutcomes
        case topology.waitingOutcomesExchange: return !refusesWaitingOutcomes
        default: return true
        }
    }

    /// Moves messages like the broker: after their time, and when there is room.
    mutating func moveWaitingOutcomes() {
        guard !refusesOutcomes else { return }
        for event in waitingOutcomes.filter({ $0.due <= now }).map(\.event) {
            for delivery in event.deliveries {
                deliveries[delivery.id]?.waitingFinals -= 1
                deliveries[delivery.id]?.confirmedFinals += 1
            }
        }
        waitingOutcomes.removeAll { $0.due <= now }
    }

    private mutating func settleMarker() {
        let (id, message) = markers.removeFirst()
        guard let marker = try? ControlMessage(decoding: message.body) else { return breach("a marker that cannot be read") }
        stream.append(marker)
        handle(.markerPublished(id, .confirmed))
        if isFair { readControl(upTo: .max) }
    }

    /// Whether the event's head contains it, before the deliveries.
    private static func mayBeFinal(_ body: [UInt8]) -> Bool {
        let wanted = #""final":false"#
        return body.withUnsafeBytes { bytes in
            guard let start = bytes.baseAddress else { return true }
            // Past `specversion`, `id` and the like, none of which is shorter.
            for offset in 100..<max(100, min(bytes.count, 400) - wanted.utf8.count)
            where memcmp(start + offset, wanted, wanted.utf8.count) == 0 {
                return false
            }
            return true
        }
    }

    /// An attempt that may have arrived is never forgotten, nor one that APNs failed at. Of a forked delivery each copy knows its own.
    private mutating func checkEnd(_ outcome: OutcomeClass, of delivery: OutcomeEvent.Delivery) {
        guard let account = deliveries[delivery.id], !account.isForked else { return }
        let isOurs = [.expired, .fenced, .cancelled, .held, .failed].contains(outcome)
        if isOurs, account.isUnanswered {
            breach("delivery \(delivery.id.low) ended as \(outcome) although an attempt got no answer")
        }
        if outcome == .expired, account.hasFailed { breach("delivery \(delivery.id.low) ended as expired although APNs failed at it") }
        if outcome == .unknown, !account.isUnanswered { breach("delivery \(delivery.id.low) ended as unknown although APNs answered all") }
        if outcome == .unknown, delivery.sentAt == nil { timesRemembered += 1 }
    }

    private mutating func store(_ message: OutgoingMessage) {
        let stored = StoredMessage(body: message.body, headers: message.headers, lane: message.routingKey)
        if message.exchange == topology.deadExchange || message.exchange == topology.waitingDeadExchange {
            dead.append(stored)
        } else if message.exchange == topology.outcomesExchange || message.exchange == topology.waitingOutcomesExchange {
            let waits = message.exchange == topology.waitingOutcomesExchange
            if waits { timesOutcomesWaited += 1 }
            // Most are not, and reading one takes longer than everything else.
            guard Self.mayBeFinal(message.body) else { return }
            guard let event = try? OutcomeEvent(decoding: message.body) else { return breach("an outcome event that cannot be read") }
            guard event.isFinal else { return }
            for delivery in event.deliveries {
                checkEnd(event.outcome, of: delivery)
                if waits { deliveries[delivery.id]?.waitingFinals += 1 } else { deliveries[delivery.id]?.confirmedFinals += 1 }
            }
            if waits { waitingOutcomes.append((now + RetryDelay.thirtySeconds.milliseconds, event)) }
        } else if let delay = RetryDelay.allCases.first(where: { topology.retryExchange($0) == message.exchange }) {
            if stored.headers[JobHeaders.heldBy] != nil { timesHeld += 1 }
            delayed.append((now + delay.milliseconds, stored))
        } else if message.exchange == topology.jobsExchange {
            secondCopies += 1
            ready.append(stored)
        } else if message.routingKey != topology.heartbeatQueue {
            breach("a message to nowhere: \(message.exchange) \(message.routingKey)")
        }
    }
}
