import Broker
import PushModel
import Synchronization

/// One message of outcomes from the broker, and which of its deliveries are applied. It is acknowledged once all of them are.
final class OutcomeMessage: Sendable {
    /// One delivery of a message.
    struct Part: Sendable {
        let message: OutcomeMessage
        /// The delivery's place in the event.
        let index: Int

        var event: OutcomeEvent { message.event.only([index]) }
    }

    private struct Progress {
        /// All of them at once, as a rule.
        var isApplied: Bool
        var applied: Set<Int> = []
        /// The events of deliveries whose end differs from the message's.
        var ended: [Int: OutcomeEvent] = [:]
    }

    let message: ReceivedMessage
    let event: OutcomeEvent
    private let progress: Mutex<Progress>

    init(_ message: ReceivedMessage, _ event: OutcomeEvent) {
        self.message = message
        self.event = event
        progress = Mutex(Progress(isApplied: event.deliveries.isEmpty))
    }

    var isApplied: Bool { progress.withLock { $0.isApplied } }
    var unapplied: [Part] {
        let (isApplied, applied) = progress.withLock { ($0.isApplied, $0.applied) }
        return isApplied ? [] : event.deliveries.indices.filter { !applied.contains($0) }.map { Part(message: self, index: $0) }
    }

    func markApplied() { progress.withLock { $0.isApplied = true } }

    /// - Parameter end: The delivery's outcome if it differs from the message's; an event without deliveries for none.
    func markApplied(_ index: Int, as end: OutcomeEvent? = nil) {
        progress.withLock { progress in
            progress.applied.insert(index)
            progress.ended[index] = end
            progress.isApplied = progress.applied.count == event.deliveries.count
        }
    }

    /// The outcomes of the deliveries, for webhooks: this message's event, and one for each that ended differently. The ids are the same
    /// every time.
    var outcomes: [OutcomeEvent] {
        let ended = progress.withLock { $0.ended }
        guard !ended.isEmpty else { return [event] }
        let kept = event.only(event.deliveries.indices.filter { ended[$0] == nil })
        return ([kept] + ended.sorted { $0.key < $1.key }.map(\.value)).filter { !$0.deliveries.isEmpty }
    }

    /// The content of the parts, each message's in one event.
    static func events(of parts: [Part]) -> [OutcomeEvent] {
        var events: [OutcomeEvent] = []
        var start = 0
        while start < parts.count {
            let message = parts[start].message
            let indices = parts[start...].prefix { $0.message === message }.map(\.index)
            events.append(message.event.only(indices))
            start += indices.count
        }
        return events
    }
}

extension OutcomeEvent {
    fileprivate func only(_ indices: [Int]) -> OutcomeEvent {
        var event = self
        event.deliveries = indices.map { deliveries[$0] }
        return event
    }
}
