import Broker
import PushModel

/// A message of ours, with its purpose.
struct OutboundMessage {
    enum Kind {
        case outcome, retry, deadLetter, heartbeat, probe
        /// The dead letter of a message that is no job.
        case unreadable
    }

    private(set) var message: OutgoingMessage
    /// One entry for each confirmation that a job waits for.
    var covers: [UInt64]
    let kind: Kind
}

extension OutboundMessage {
    init(_ gathered: OutcomeGatherer.Gathered, topology: Topology, source: String, at now: Int64) {
        let event = OutcomeEvent(
            id: PushID.timeOrdered(milliseconds: now), source: source, time: now, app: gathered.app, outcome: gathered.outcome,
            isFinal: gathered.isFinal, deliveries: gathered.deliveries)
        message = OutgoingMessage(
            exchange: topology.outcomesExchange, routingKey: event.routingKey, messageID: event.id, contentType: OutcomeEvent.contentType,
            headers: [:], body: event.encoded(), fallbackExchanges: [topology.waitingOutcomesExchange])
        covers = gathered.jobs
        kind = .outcome
    }

    /// A copy that no job waits for.
    init(probing refused: OutboundMessage) {
        message = refused.message
        message.fallbackExchanges = []
        covers = []
        kind = .probe
    }
}

/// The messages about a job that go back to the broker.
extension Topology {
    /// A copy of the job with only the deliveries that need another try. Through the broker, so that it outlives this process. If its
    /// delayed queue takes no more, it goes to the next shorter one, in which no delivery is late; from the shortest to the second.
    /// - Parameter delay: nil for at once.
    func retry(of job: PushJob, after delay: RetryDelay?, headers: [String: String], at now: Int64) -> OutgoingMessage {
        let shorter = RetryDelay.allCases.filter { $0 < delay ?? .fiveSeconds }.reversed().map(retryExchange)
        return OutgoingMessage(
            exchange: delay.map(retryExchange) ?? jobsExchange, routingKey: jobRoutingKey(job.lane),
            messageID: .timeOrdered(milliseconds: now), contentType: PushJob.contentType, headers: headers, body: job.encoded(),
            fallbackExchanges: shorter.isEmpty ? [retryExchange(.fiveSeconds)] : shorter)
    }

    /// A copy of the job with the deliveries that were given up.
    func deadLetter(of job: PushJob, because reason: String, headers: [String: String], at now: Int64) -> OutgoingMessage {
        var headers = headers
        headers[DeadLetterHeader.reason] = reason
        return OutgoingMessage(
            exchange: deadExchange, routingKey: jobRoutingKey(job.lane), messageID: .timeOrdered(milliseconds: now),
            contentType: PushJob.contentType, headers: headers, body: job.encoded(), fallbackExchanges: [waitingDeadExchange])
    }

    /// A message that is no job, as it came.
    func deadLetter(_ received: ReceivedMessage, because reason: String, detail: String, at now: Int64) -> OutgoingMessage {
        var headers = JobHeaders(received.properties).kept
        headers[DeadLetterHeader.reason] = reason
        headers[DeadLetterHeader.detail] = String(detail.prefix(DeadLetterHeader.longestDetail))
        headers[DeadLetterHeader.source] = received.queue
        return OutgoingMessage(
            exchange: deadExchange, routingKey: received.routingKey, messageID: .timeOrdered(milliseconds: now),
            contentType: received.contentType, headers: headers, body: received.body, fallbackExchanges: [waitingDeadExchange])
    }
}

/// Headers of a dead letter, beside the job's own.
enum DeadLetterHeader {
    static let reason = "push-reason"
    static let detail = "push-detail"
    /// Characters.
    static let longestDetail = 500
    /// The original queue of a message that is no job.
    static let source = "push-source"
}
