package import Broker
import Observability
package import PushModel
import SystemIO

/// Deliveries → jobs → confirms → settlement (DESIGN.md section 4, step 2). What it cannot publish is left to the ``Relay``.
package final class JobPublisher: Sendable {
    private static let patience = Duration.seconds(10)
    /// Bytes of a job that gains from company: the broker's work for a larger one is in its bytes.
    private static let smallJob = 2048

    /// Whether small jobs of one app may share a message.
    package enum Parcels: String, Sendable, CaseIterable {
        case on
        /// For dispatchers that cannot read parcels.
        case off
    }

    private let publisher: Publisher
    private let topology: Topology
    private let parcels: Parcels
    private let lease: Duration
    private let settlements: PublishSettlements
    private let window: RelayWindow

    /// - Parameters:
    ///   - lease: How long a notification is this process's alone before a relay may take it over.
    ///   - window: Told what the broker says of jobs.
    package init(
        publisher: Publisher, topology: Topology, parcels: Parcels, lease: Duration, settlements: PublishSettlements, window: RelayWindow
    ) {
        self.publisher = publisher
        self.topology = topology
        self.parcels = parcels
        self.lease = lease
        self.settlements = settlements
        self.window = window
    }

    /// The lease of a notification that is about to be accepted. Zero while the broker is away: a lease would only delay the relay,
    /// and messages that pile up in memory would be lost with the process.
    package var leaseForNewcomers: Double { publisher.state == .ready ? lease / .seconds(1) : 0 }

    package var isReady: Bool { publisher.state == .ready }

    /// As far as is known, the broker takes the lane's jobs.
    func isOpen(_ lane: Lane) -> Bool { window.isOpen(lane) }

    /// A committed notification with its deliveries.
    package struct Accepted: Sendable {
        package let template: JobTemplate
        package let deliveries: [PushJob.Delivery]
        /// See ``OutboxStore/Claimed/stopped``.
        package var stopped: [OutcomeEvent] = []
        /// The row of the outbox that it is in; nil where the relay has taken it.
        package let outbox: Int64?
    }

    /// Hands committed notifications' jobs to the broker, all in one go, and returns at once; the outcome is written down later.
    package func publish(_ accepted: [Accepted]) {
        guard let first = accepted.first?.template else { return }
        // Side by side they find company.
        let isMixed = accepted.contains { $0.template.app != first.app || $0.template.lane != first.lane }
        let accepted = isMixed ? accepted.sorted { $0.template.company < $1.template.company } : accepted
        let ids = accepted.map { (id: $0.template.notification, lane: $0.template.lane, outbox: $0.outbox) }
        settlements.began(accepted)
        var messages: [OutgoingMessage] = []
        messages.reserveCapacity(accepted.count)
        // Where the messages of each end, and among them its jobs.
        var (ends, jobEnds): ([Int], [Int]) = ([], [])
        ends.reserveCapacity(accepted.count)
        jobEnds.reserveCapacity(accepted.count)
        for item in accepted {
            for job in item.template.jobs(item.deliveries) { messages.append(message(job, item.template)) }
            jobEnds.append(messages.count)
            messages += item.stopped.map { message($0, item.template) }
            ends.append(messages.count)
        }
        publisher.publish(messages) { [settlements, window, ends, jobEnds] outcomes in
            var start = 0
            var answers: [Lane: RelayWindow.Answers] = [:]
            let settled = zip(ids, zip(jobEnds, ends)).map { item, ends in
                let (jobEnd, end) = ends
                defer { start = end }
                for outcome in outcomes[start..<jobEnd] { answers[item.lane, default: RelayWindow.Answers()].count(outcome) }
                return (id: item.id, isPublished: outcomes[start..<end].allSatisfy(\.isConfirmed), outbox: item.outbox)
            }
            for (lane, answers) in answers { window.told(lane, answers) }
            settlements.ended(settled)
        }
    }

    func walked() { settlements.walked() }

    /// Publishes jobs whose outbox is elsewhere, and the outcomes of what is stopped, and waits for the broker's word.
    /// - Returns: whether all of them are confirmed.
    package func publishConfirmed(_ claimed: [OutboxStore.Claimed]) async -> Bool {
        let messages = claimed.flatMap { item in
            item.template.jobs(item.deliveries).map { message($0, item.template, earlierAttempts: item.earlierAttempts) }
                + item.stopped.map { message($0, item.template) }
        }
        return await publisher.publish(messages, deadline: Self.patience).allSatisfy(\.isConfirmed)
    }

    /// The same for committed chunks, one job each. Returns when the broker's answer for all of them is written down: what is not can be
    /// published twice.
    package func publish(_ chunks: [PublishableChunk]) async {
        var messages: [OutgoingMessage] = []
        var chunkOf: [Int] = []
        var jobs: [Lane: [Int]] = [:]
        for (index, chunk) in chunks.enumerated() {
            if !chunk.deliveries.isEmpty {
                jobs[chunk.template.lane, default: []].append(messages.count)
                messages.append(message(chunk.template.encodedJob(chunk.deliveries), chunk.template))
            }
            messages += chunk.stopped.map { message($0, chunk.template) }
            chunkOf += repeatElement(index, count: messages.count - chunkOf.count)
        }
        let ids = chunks.map(\.id)
        let (indices, outgoing, jobsOfLanes) = (chunkOf, messages, jobs)
        settlements.began(ids)
        await withCheckedContinuation { continuation in
            publisher.publish(outgoing) { [settlements, window] outcomes in
                for (lane, jobs) in jobsOfLanes { window.told(lane, RelayWindow.Answers(jobs.lazy.map { outcomes[$0] })) }
                var isPublished = [Bool](repeating: true, count: ids.count)
                for (index, outcome) in zip(indices, outcomes) where !outcome.isConfirmed { isPublished[index] = false }
                settlements.ended(zip(ids, isPublished).map { (id: $0, isPublished: $1) }, written: continuation)
            }
        }
    }

    private func message(_ event: OutcomeEvent, _ template: JobTemplate) -> OutgoingMessage {
        OutgoingMessage(
            exchange: topology.outcomesExchange, routingKey: event.routingKey, messageID: event.id, contentType: OutcomeEvent.contentType,
            headers: [TraceContext.headerName: template.traceparent], body: event.encoded(),
            fallbackExchange: topology.waitingOutcomesExchange)
    }

    private func message(_ job: PushJob, _ template: JobTemplate, earlierAttempts: Int = 0) -> OutgoingMessage {
        message(job.encoded(), template, earlierAttempts: earlierAttempts)
    }

    private func message(_ job: [UInt8], _ template: JobTemplate, earlierAttempts: Int = 0) -> OutgoingMessage {
        var headers = [TraceContext.headerName: template.traceparent]
        let hasCompany = parcels == .on && job.count <= Self.smallJob && earlierAttempts == 0
        if earlierAttempts > 0 { headers[PushJob.earlierAttemptsHeader] = String(earlierAttempts) }
        var random = PooledRandom()
        return OutgoingMessage(
            exchange: topology.jobsExchange, routingKey: topology.jobRoutingKey(template.lane),
            messageID: .timeOrdered(milliseconds: UnixTime.milliseconds(), using: &random), contentType: PushJob.contentType,
            headers: headers, body: job, company: hasCompany ? template.app.text : nil)
    }
}

extension JobTemplate {
    fileprivate var company: (String, String) { (lane.rawValue, app.text) }
}
