import APNs
import Observability
import PushModel

/// The spans of one job whose trace is sampled (docs/guides/traces.md). Times are UNIX milliseconds.
struct JobTrace {
    /// Of the message: the publishing, or the try before this one.
    let sender: TraceContext
    /// Of this try. A retry's message carries it, so that all tries of a job have one trace.
    let own: TraceContext

    init(_ sender: TraceContext) {
        self.sender = sender
        own = sender.child()
    }

    /// The wait of the message in its queue, and in delayed queues before it.
    func wait(of job: PushJob, publishedAt: Int64, takenAt: Int64) -> Span {
        Span(
            "receive \(job.lane.rawValue)", .consumer, sender.child(), parent: sender,
            start: min(publishedAt, takenAt) * 1_000_000, end: takenAt * 1_000_000)
    }

    /// From the taking of the job to the decision about its last delivery.
    func work(on job: PushJob, takenAt: Int64, decidedAt: Int64) -> Span {
        Span(
            "process \(job.lane.rawValue)", .consumer, own, parent: sender, start: takenAt * 1_000_000, end: decidedAt * 1_000_000,
            [
                ("messaging.system", .text("rabbitmq")), ("push.app", .text(job.app.text)),
                ("push.notification", .text(job.notification.description)), ("push.attempt", .number(job.attempt + 1)),
                ("push.deliveries", .number(job.deliveries.count)),
            ])
    }

    /// One request to APNs.
    func request(_ target: APNsTarget, _ delivery: PushJob.Delivery, sentAt: Int64, answeredAt: Int64, _ said: Answered) -> Span {
        var attributes: [(name: String, value: Span.Value)] = [
            ("push.delivery", .text(delivery.id.description)), ("push.environment", .text(delivery.environment.rawValue)),
        ]
        if let status = said.status { attributes.append(("http.response.status_code", .number(status))) }
        if let reason = said.reason { attributes.append(("push.apns.reason", .text(reason))) }
        return Span(
            target == .broadcast ? "POST /4/broadcasts" : "POST /3/device", .client, own.child(), parent: own, start: sentAt * 1_000_000,
            end: answeredAt * 1_000_000, attributes,
            fault: said.status == 200 ? nil : said.reason ?? said.status.map { "status \($0)" } ?? "no answer")
    }
}
