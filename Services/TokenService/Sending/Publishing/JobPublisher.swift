package import Broker
package import Observability
package import PushModel
import Synchronization
import SystemIO
import TokenServiceKit

/// Committed jobs → the broker → its confirms → ``ConfirmWriter``. The ``Relay`` publishes jobs again that the broker did not confirm.
package final class JobPublisher: Sendable {
    private static let patience = Duration.seconds(10)
    /// Jobs of one notification.
    private static let tracedJobs = 10

    private let publisher: Publisher
    private let topology: Topology
    private let lease: Duration
    private let confirms: ConfirmWriter
    private let window: RelayWindow
    private let waits: LaneWaits
    private let traces: Traces

    /// - Parameters:
    ///   - lease: How long a notification is this process's alone before a relay may take it over.
    ///   - window: Observes the broker's answers about jobs.
    ///   - waits: Observes which jobs wait for a dispatcher.
    package init(
        publisher: Publisher, topology: Topology, lease: Duration, confirms: ConfirmWriter, window: RelayWindow, waits: LaneWaits,
        traces: Traces
    ) {
        self.publisher = publisher
        self.topology = topology
        self.lease = lease
        self.confirms = confirms
        self.window = window
        self.waits = waits
        self.traces = traces
    }

    /// The lease of a notification that is about to be accepted. Zero while the broker is away: a lease would only delay the relay,
    /// and messages that pile up in memory would be lost with the process.
    package var leaseForNewcomers: Double { publisher.state == .ready ? lease / .seconds(1) : 0 }

    package var isReady: Bool { publisher.state == .ready }

    /// Whether the broker takes the lane's jobs, as far as this process knows.
    func isOpen(_ lane: Lane) -> Bool { window.isOpen(lane) }

    /// Hands the jobs of an acceptance to the broker together, and returns at once. The broker's answer is recorded later.
    package func publish(_ jobs: [PublishableJob]) {
        if !jobs.isEmpty { publish(jobs, reply: nil) }
    }

    /// Publishes the jobs, and returns when the broker's answers are recorded: an unrecorded job can be published twice.
    package func publishAndWait(_ jobs: [PublishableJob]) async {
        await withCheckedContinuation { publish(jobs, reply: JobsReply(jobs: jobs.count, $0)) }
    }

    private func publish(_ jobs: [PublishableJob], reply: JobsReply?) {
        confirms.began(jobs.map { ($0.id, $0.template.appLane) })
        publishMessages(of: jobs.filter { $0.stopped == nil }, reply)
        publishOutcomesFirst(of: jobs.filter { $0.stopped != nil }, reply)
    }

    /// Publishes the outcomes of stopped members, and each job when its own outcome is confirmed. While the broker does not take an
    /// outcome, the job is tried again and again: if it went with the outcome, each attempt would publish its other deliveries once more.
    private func publishOutcomesFirst(of jobs: [PublishableJob], _ reply: JobsReply?) {
        guard !jobs.isEmpty else { return }
        publisher.publish(jobs.compactMap { job in job.stopped.map { message($0, job.template) } }) { [self] answers in
            publishMessages(of: answers.filter(\.outcome.isConfirmed).map { jobs[$0.index] }, reply)
            let unpublished = answers.filter { !$0.outcome.isConfirmed }.map { PublishedJob(jobs[$0.index], isPublished: false) }
            if !unpublished.isEmpty { confirms.ended(unpublished, reply: reply) }
        }
    }

    private func publishMessages(of jobs: [PublishableJob], _ reply: JobsReply?) {
        // All of its deliveries are stopped, or got their outcome meanwhile.
        let done = jobs.filter(\.deliveries.isEmpty).map { PublishedJob($0, isPublished: true) }
        if !done.isEmpty { confirms.ended(done, reply: reply) }
        let rest = jobs.filter { !$0.deliveries.isEmpty }
        guard !rest.isEmpty else { return }
        let spans = rest.map { span(of: $0) }
        let messages = zip(rest, spans).map { job, span in
            message(job.template.encodedJob(job.id.number, job.deliveries), job.template, traceparent: span?.own.traceparent)
        }
        let sent = rest.map { Sent($0) }
        #if PUSH_DELIBERATE_FAULTS
            if DeliberateFault.chosen == .noConfirms {
                publisher.publish(messages) { _ in }
                return confirms.ended(rest.map { PublishedJob($0, isPublished: true) }, reply: reply)
            }
        #endif
        publisher.publish(messages) { [confirms, window, waits, traces] answers in
            var seen: [Lane: RelayWindow.Answers] = [:]
            var waiting: [Lane: (last: JobID, expiresAt: Int64)] = [:]
            let answered = answers.map { answer in
                let job = sent[answer.index]
                let lane = job.key.lane
                seen[lane, default: RelayWindow.Answers()].count(answer.outcome)
                if answer.outcome.isConfirmed, !job.hasStopped {
                    waiting[lane] = (job.id, min(waiting[lane]?.expiresAt ?? .max, job.expiresAt))
                }
                return PublishedJob(id: job.id, isPublished: answer.outcome.isConfirmed, isFirst: job.isFirst)
            }
            for (lane, answers) in seen { window.observe(lane, answers) }
            let now = UnixTime.milliseconds()
            for (lane, jobs) in waiting { waits.published(jobs.last, in: lane, expiresAt: jobs.expiresAt, now: now) }
            let ended = answers.compactMap { spans[$0.index]?.ended() }
            if !ended.isEmpty { traces.record(ended) }
            confirms.ended(answered, reply: reply)
        }
    }

    /// The publishing of a job whose trace is sampled. The message carries it, so that the dispatcher's spans follow it. A fan-out makes
    /// thousands of jobs: the first ones stand for all.
    private func span(of job: PublishableJob) -> PublishingSpan? {
        guard job.id.number < Self.tracedJobs, let parent = traces.context(job.template.traceparent) else { return nil }
        return PublishingSpan(
            own: parent.child(), parent: parent, began: WallClock.nanoseconds(), queue: topology.jobQueue(job.template.lane), job: job.id,
            app: job.template.app)
    }

    private struct PublishingSpan {
        let own: TraceContext
        let parent: TraceContext
        let began: Int64
        let queue: String
        let job: JobID
        let app: AppSlug

        func ended() -> Span {
            Span(
                "publish \(queue)", .producer, own, parent: parent, start: began, end: WallClock.nanoseconds(),
                [
                    ("messaging.system", .text("rabbitmq")), ("messaging.destination.name", .text(queue)), ("push.app", .text(app.text)),
                    ("push.notification", .text(job.notification.description)), ("push.job", .number(job.number)),
                ])
        }
    }

    /// A job as the broker's answer needs it: without its payload and its deliveries.
    private struct Sent {
        let id: JobID
        let key: AppLane
        let expiresAt: Int64
        let hasStopped: Bool
        let isFirst: Bool

        init(_ job: PublishableJob) {
            id = job.id
            key = job.template.appLane
            expiresAt = job.template.expiresAt
            hasStopped = job.stopped != nil
            isFirst = job.isFirst
        }
    }

    func fannedOut(_ template: JobTemplate) { confirms.fannedOut(template.appLane) }

    /// Publishes deliveries that a replay opened, and the outcomes of those that it stopped, and waits for the broker's answer. Only the
    /// dead letters remember them, so a letter stays until the broker has confirmed all of its own.
    /// - Returns: the deliveries of the messages that are not confirmed.
    package func publishConfirmed(_ reopened: [Reopened]) async -> Set<PushID> {
        var (messages, deliveries): ([OutgoingMessage], [[PushID]]) = ([], [])
        for item in reopened {
            for start in stride(from: 0, to: item.deliveries.count, by: PushJob.maximumDeliveries) {
                let part = item.deliveries[start..<min(start + PushJob.maximumDeliveries, item.deliveries.count)]
                messages.append(
                    message(
                        item.template.encodedJob(item.job, EncodedDeliveries(part)), item.template, earlierAttempts: item.earlierAttempts))
                deliveries.append(part.map(\.id))
            }
            for event in item.stopped {
                messages.append(message(event, item.template))
                deliveries.append(event.deliveries.map(\.id))
            }
        }
        let outcomes = await publisher.publish(messages, deadline: Self.patience)
        return Set(zip(deliveries, outcomes).lazy.filter { !$1.isConfirmed }.flatMap { $0.0 })
    }

    /// The deliveries and outcomes of one notification that a replay publishes.
    package struct Reopened: Sendable {
        package var template: JobTemplate
        /// The job that the payload names, if it names one.
        package var job = 0
        package var deliveries: [PushJob.Delivery]
        /// See ``PushJob/earlierAttemptsHeader``.
        package var earlierAttempts = 0
        /// Outcomes of deliveries that are not sent any more. They go the way of all outcomes.
        package var stopped: [OutcomeEvent] = []

        package init(
            template: JobTemplate, job: Int = 0, deliveries: [PushJob.Delivery], earlierAttempts: Int = 0, stopped: [OutcomeEvent] = []
        ) {
            self.template = template
            self.job = job
            self.deliveries = deliveries
            self.earlierAttempts = earlierAttempts
            self.stopped = stopped
        }
    }

    private func message(_ event: OutcomeEvent, _ template: JobTemplate) -> OutgoingMessage {
        OutgoingMessage(
            exchange: topology.outcomesExchange, routingKey: event.routingKey, messageID: event.id, contentType: OutcomeEvent.contentType,
            headers: [TraceContext.headerName: template.traceparent], body: event.encoded(),
            fallbackExchanges: [topology.waitingOutcomesExchange])
    }

    private func message(
        _ job: [UInt8], _ template: JobTemplate, earlierAttempts: Int = 0, traceparent: String? = nil
    ) -> OutgoingMessage {
        var headers = [TraceContext.headerName: traceparent ?? template.traceparent, PushJob.appHeader: template.app.text]
        if earlierAttempts > 0 { headers[PushJob.earlierAttemptsHeader] = String(earlierAttempts) }
        var random = PooledRandom()
        return OutgoingMessage(
            exchange: topology.jobsExchange, routingKey: topology.jobRoutingKey(template.lane),
            messageID: .timeOrdered(milliseconds: UnixTime.milliseconds(), using: &random), contentType: PushJob.contentType,
            headers: headers, body: job)
    }
}

/// One job of a notification: one row and one message.
package struct JobID: Hashable, Sendable {
    package var notification: PushID
    /// The job's number in its notification, from 0, in the order in which they were made.
    package var number: Int

    package init(notification: PushID, number: Int) {
        self.notification = notification
        self.number = number
    }
}

/// Names the deliveries of one notification by their places: 74 bits of SHA-256 over its id, the job's number in 32 bits, the
/// position in 16; marked as a UUID of version 8 (RFC 9562 section 5.8). A place belongs to one token for ever, so an outcome finds its
/// delivery without an index, and a delivery has one id however often its job is published. The function `delivery_id` does the same.
package struct DeliveryNames: Sendable {
    package let notification: PushID
    private let high: UInt64
    private let low: UInt64

    package init(_ notification: PushID) {
        self.notification = notification
        let digest = PushID(digestOf: notification.bytes)
        high = digest.high
        low = digest.low & 0xffff_0000_0000_0000
    }

    package func id(job: Int, position: Int) -> PushID {
        PushID(high: high, low: low | UInt64(UInt32(truncatingIfNeeded: job)) << 16 | UInt64(UInt16(truncatingIfNeeded: position)))
    }

    /// The place that a delivery's id names.
    package static func place(of delivery: PushID) -> (job: Int, position: Int) {
        (Int(UInt32(truncatingIfNeeded: delivery.low >> 16)), Int(UInt16(truncatingIfNeeded: delivery.low)))
    }
}
