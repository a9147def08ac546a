package import Broker
import Observability
package import PushModel
import SystemIO

/// Committed jobs → the broker → its confirms → settlement. The ``Relay`` publishes jobs again that the broker did not confirm.
package final class JobPublisher: Sendable {
    private static let patience = Duration.seconds(10)

    private let publisher: Publisher
    private let topology: Topology
    private let lease: Duration
    private let settlements: PublishSettlements
    private let window: RelayWindow

    /// - Parameters:
    ///   - lease: How long a notification is this process's alone before a relay may take it over.
    ///   - window: Observes the broker's answers about jobs.
    package init(
        publisher: Publisher, topology: Topology, lease: Duration, settlements: PublishSettlements, window: RelayWindow
    ) {
        self.publisher = publisher
        self.topology = topology
        self.lease = lease
        self.settlements = settlements
        self.window = window
    }

    /// The lease of a notification that is about to be accepted. Zero while the broker is away: a lease would only delay the relay,
    /// and messages that pile up in memory would be lost with the process.
    package var leaseForNewcomers: Double { publisher.state == .ready ? lease / .seconds(1) : 0 }

    package var isReady: Bool { publisher.state == .ready }

    /// Whether the broker takes the lane's jobs, as far as this process knows.
    func isOpen(_ lane: Lane) -> Bool { window.isOpen(lane) }

    /// Hands the jobs of an acceptance to the broker together, and returns at once. The broker's answer is recorded later.
    package func publish(_ jobs: [PublishableJob]) {
        if !jobs.isEmpty { publish(jobs, written: nil) }
    }

    /// The same, but returns when the broker's answers are recorded: an unrecorded job can be published twice.
    package func publishAndWait(_ jobs: [PublishableJob]) async {
        await withCheckedContinuation { publish(jobs, written: $0) }
    }

    private func publish(_ jobs: [PublishableJob], written: CheckedContinuation<Void, Never>?) {
        var messages: [OutgoingMessage] = []
        messages.reserveCapacity(jobs.count)
        // The end of each job's messages; the first of them is the job itself, unless all of its deliveries are stopped.
        var ends: [Int] = []
        ends.reserveCapacity(jobs.count)
        for job in jobs {
            if !job.deliveries.isEmpty { messages.append(message(job.template.encodedJob(job.deliveries), job.template)) }
            messages += job.stopped.map { message($0, job.template) }
            ends.append(messages.count)
        }
        let sent = jobs.map { (id: $0.id, lane: $0.template.lane, isEmpty: $0.deliveries.isEmpty, isFirst: $0.isFirst) }
        settlements.began(sent.map(\.id))
        publisher.publish(messages) { [settlements, window, ends] outcomes in
            var start = 0
            var answers: [Lane: RelayWindow.Answers] = [:]
            let settled = zip(sent, ends).map { job, end in
                defer { start = end }
                if !job.isEmpty { answers[job.lane, default: RelayWindow.Answers()].count(outcomes[start]) }
                return PublishedJob(id: job.id, isPublished: outcomes[start..<end].allSatisfy(\.isConfirmed), isFirst: job.isFirst)
            }
            for (lane, answers) in answers { window.observe(lane, answers) }
            settlements.ended(settled, written: written)
        }
    }

    func fannedOut() { settlements.fannedOut() }

    /// Publishes deliveries that a replay opened, and the outcomes of those that it stopped, and waits for the broker's answer. Only the
    /// dead letters remember them, so the letters stay until the broker has confirmed all of them.
    /// - Returns: whether all of them are confirmed.
    package func publishConfirmed(_ reopened: [Reopened]) async -> Bool {
        let messages = reopened.flatMap { item in
            stride(from: 0, to: item.deliveries.count, by: PushJob.maximumDeliveries).map { start in
                let part = item.deliveries[start..<min(start + PushJob.maximumDeliveries, item.deliveries.count)]
                return message(item.template.encodedJob(EncodedDeliveries(part)), item.template, earlierAttempts: item.earlierAttempts)
            } + item.stopped.map { message($0, item.template) }
        }
        return await publisher.publish(messages, deadline: Self.patience).allSatisfy(\.isConfirmed)
    }

    /// The deliveries and outcomes of one notification that a replay publishes.
    package struct Reopened: Sendable {
        package var template: JobTemplate
        package var deliveries: [PushJob.Delivery]
        /// See ``PushJob/earlierAttemptsHeader``.
        package var earlierAttempts = 0
        /// Outcomes of deliveries that are not sent any more. They go the way of all outcomes.
        package var stopped: [OutcomeEvent] = []
    }

    private func message(_ event: OutcomeEvent, _ template: JobTemplate) -> OutgoingMessage {
        OutgoingMessage(
            exchange: topology.outcomesExchange, routingKey: event.routingKey, messageID: event.id, contentType: OutcomeEvent.contentType,
            headers: [TraceContext.headerName: template.traceparent], body: event.encoded(),
            fallbackExchange: topology.waitingOutcomesExchange)
    }

    private func message(_ job: [UInt8], _ template: JobTemplate, earlierAttempts: Int = 0) -> OutgoingMessage {
        var headers = [TraceContext.headerName: template.traceparent, PushJob.appHeader: template.app.text]
        if earlierAttempts > 0 { headers[PushJob.earlierAttemptsHeader] = String(earlierAttempts) }
        var random = PooledRandom()
        return OutgoingMessage(
            exchange: topology.jobsExchange, routingKey: topology.jobRoutingKey(template.lane),
            messageID: .timeOrdered(milliseconds: UnixTime.milliseconds(), using: &random), contentType: PushJob.contentType,
            headers: headers, body: job)
    }
}
