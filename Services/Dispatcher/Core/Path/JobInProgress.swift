import APNs
import Broker
import Observability
import PushModel
import RabbitMQ

/// A job from its start to its settlement. The ``SettlementBook`` has its delivery tag and its unconfirmed messages.
struct JobInProgress {
    let number: UInt64
    /// Where it waited: the lane of its queue, and the app of its header. The scheduler counts by it.
    let appLane: AppLaneIndex
    /// The app of the job itself: the gate, fences and pools go by it.
    let app: ControlState.AppIndex
    let job: PushJob
    let headers: JobHeaders
    /// When its message was made, UNIX milliseconds: a scheduled job is published when it is due.
    let publishedAt: Int64
    /// UNIX milliseconds.
    let takenAt: Int64
    /// When its deliveries last went to their pools, UNIX milliseconds.
    var handedOverAt: Int64
    /// Nil unless its trace is sampled.
    let trace: JobTrace?

    /// Deliveries that have neither an outcome nor a place in a retry message.
    var pending: DeliverySet
    /// Pending ones that wait here, and since when (UNIX milliseconds).
    var waiting = DeliverySet()
    var waitingSince: Int64 = 0
    /// Deliveries that are tried again in the other environment.
    var switched = DeliverySet()
    /// Deliveries with an attempt in vain here: APNs could not take it now, or did not answer.
    private var failed = DeliverySet()
    private var unanswered = DeliverySet()
    /// The hold because of which some of it was put aside here.
    var heldBy: PushID?
    /// The connection that brought it is gone, so the broker delivers it again.
    var isStale = false
    /// Retries and dead letters that are not published yet.
    var steps = JobSteps()

    init(
        number: UInt64, appLane: AppLaneIndex, app: ControlState.AppIndex, job: PushJob, headers: JobHeaders, publishedAt: Int64,
        takenAt: Int64,
        handedOverAt: Int64, trace: JobTrace?
    ) {
        self.number = number
        self.appLane = appLane
        self.app = app
        self.job = job
        self.headers = headers
        self.publishedAt = publishedAt
        self.takenAt = takenAt
        self.handedOverAt = handedOverAt
        self.trace = trace
        pending = DeliverySet(all: job.deliveries.count)
    }

    /// The number of the try that is being made.
    var attempt: Int { job.attempt + 1 }
    /// The number of the try before this one. If this try never left, that earlier one is why a delivery ends as failed or unknown. After a
    /// replay there may be no earlier try, and an end must have a number of the new life.
    var lastAttempt: Int { max(1, job.attempt) }
    var isFirstTry: Bool { job.attempt == 0 && headers.waits == 0 }

    var version: CarefulDeliveries.Version {
        CarefulDeliveries.Version(life: headers.earlierAttempts, attempts: job.attempt, waits: headers.waits)
    }

    /// An attempt that is to be tried again.
    mutating func note(_ outcome: PushJob.EarlierOutcome, _ index: Int) {
        switch outcome {
        case .none: break
        case .failed: failed.insert(index)
        case .unknown: unanswered.insert(index)
        }
    }

    /// The results of a delivery's attempts, here and before.
    func attempts(of index: Int) -> PushJob.EarlierOutcome {
        let here: PushJob.EarlierOutcome = unanswered.contains(index) ? .unknown : failed.contains(index) ? .failed : .none
        return max(here, job.deliveries[index].earlierOutcome)
    }

    /// A job of some of its deliveries.
    func copy(of indices: [Int], attempt: Int) -> PushJob {
        var copy = job
        copy.deliveries = indices.map { index in
            var delivery = switched.contains(index) ? job.deliveries[index].inOtherEnvironment : job.deliveries[index]
            delivery.earlierOutcome = attempts(of: index)
            return delivery
        }
        copy.attempt = attempt
        return copy
    }
}

/// A job's retries and dead letters, one message for each group. Mostly empty.
struct JobSteps {
    private(set) var retries: [(delay: RetryDelay, countsAsAttempt: Bool, indices: [Int])] = []
    private(set) var deadLetters: [(reason: RetryPlan.EndReason, indices: [Int])] = []
    /// Sent once more at once.
    var secondCopies: [Int] = []
    /// A pool gave them back because of a hold or of the gate.
    var held = DeliverySet()
    var draws = Planner.Draws()

    var isEmpty: Bool { retries.isEmpty && deadLetters.isEmpty && secondCopies.isEmpty }

    mutating func retry(_ index: Int, after delay: RetryDelay, countsAsAttempt: Bool) {
        if let place = retries.firstIndex(where: { $0.delay == delay && $0.countsAsAttempt == countsAsAttempt }) {
            retries[place].indices.append(index)
        } else {
            retries.append((delay, countsAsAttempt, [index]))
        }
    }

    mutating func deadLetter(_ index: Int, because reason: RetryPlan.EndReason) {
        if let place = deadLetters.firstIndex(where: { $0.reason == reason }) {
            deadLetters[place].indices.append(index)
        } else {
            deadLetters.append((reason, [index]))
        }
    }
}

/// The headers of a job's message. Retries keep them, so that a trace goes on, except those that the broker added.
struct JobHeaders: Equatable, Sendable {
    /// How often the job came back from a delayed queue without a try that counts.
    static let waits = "push-waits"

    /// The hold because of which it is there, so that it is reported once.
    static let heldBy = "push-held-by"

    /// The properties as they arrived. Only a retry or a dead letter needs all of them, and few jobs have one.
    private let properties: RabbitMQProperties
    let waits: Int
    /// Tries before a replay, which began a new life (``PushJob/earlierAttemptsHeader``).
    let earlierAttempts: Int
    let heldBy: PushID?

    /// Another writer's headers may be larger than those that can be published with a message.
    private static let longest = 4_096
    private static let mostBytes = 32_768
    private static let largestNumber = 1_000_000

    init(_ properties: RabbitMQProperties) {
        self.properties = properties
        func text(_ name: String) -> String? { properties.header(name)?.string }
        func number(_ name: String) -> Int { text(name).flatMap { Int($0) }.map { min(max(0, $0), Self.largestNumber) } ?? 0 }
        waits = number(Self.waits)
        earlierAttempts = number(PushJob.earlierAttemptsHeader)
        heldBy = text(Self.heldBy).flatMap { PushID($0) }
    }

    /// The headers that go on with a retry or a dead letter.
    var kept: [String: String] {
        let kept = properties.headers.compactMapValues(\.string).filter { name, value in
            !name.hasPrefix("x-") && name != Self.waits && name != Self.heldBy && name.utf8.count <= 128 && value.utf8.count <= Self.longest
        }
        guard kept.reduce(0, { $0 + $1.key.utf8.count + $1.value.utf8.count + 6 }) > Self.mostBytes else { return kept }
        return kept.filter { [TraceContext.headerName, PushJob.appHeader, PushJob.earlierAttemptsHeader].contains($0.key) }
    }

    var traceparent: String? { properties.header(TraceContext.headerName)?.string }

    func forRetry(waits: Int, heldBy: PushID?, trace: JobTrace?) -> [String: String] {
        guard waits > 0 || heldBy != nil || trace != nil else { return kept }
        var headers = kept
        if let trace { headers[TraceContext.headerName] = trace.own.traceparent }
        if waits > 0 { headers[Self.waits] = String(waits) }
        headers[Self.heldBy] = heldBy?.description
        return headers
    }
}

extension PushJob.Delivery {
    /// The one try that an unproven environment allows.
    fileprivate var inOtherEnvironment: PushJob.Delivery {
        var other = self
        other.environment = environment.other
        other.environmentTrial = .made
        return other
    }
}

/// The tag of a batch in a pool: its job, and its app for the gate.
struct BatchTag: Equatable, Sendable {
    /// At 10,000 jobs a second, 48 bits last for nine centuries.
    let job: UInt64
    let app: ControlState.AppIndex

    init(job: UInt64, app: ControlState.AppIndex) {
        self.job = job
        self.app = app
    }

    init(_ raw: UInt64) {
        job = raw >> 16
        app = ControlState.AppIndex(truncatingIfNeeded: raw)
    }

    var raw: UInt64 { job << 16 | UInt64(app) }
}

extension APNsBatch {
    /// Some deliveries of one job, all of one environment.
    convenience init(_ chosen: DeliverySet, of progress: borrowing JobInProgress) {
        var requests: [APNsRequest] = []
        requests.reserveCapacity(chosen.count)
        chosen.forEach { index in requests.append(APNsRequest(progress.job.deliveries[index], index: index)) }
        self.init(
            tag: BatchTag(job: progress.number, app: progress.app).raw, target: progress.job.isBroadcast ? .broadcast : .device,
            lane: progress.job.lane,
            pushType: progress.job.pushType, topic: progress.job.topic, priority: progress.job.priority,
            // A broadcast has no such header.
            collapseID: progress.job.isBroadcast ? nil : progress.job.collapseID,
            // A second copy of an alert replaces the first on the screen.
            collapsesByID: progress.job.pushType == .alert && !progress.job.isBroadcast, expiration: progress.job.apnsExpiration,
            expiresAt: progress.job.expiresAt,
            payload: progress.job.payload, requests: requests)
    }
}

extension APNsRequest {
    fileprivate init(_ delivery: PushJob.Delivery, index: Int) {
        self.init(
            id: delivery.id, token: delivery.token, installation: delivery.installation, ownerEpoch: delivery.ownerEpoch, index: index)
    }
}

/// The spans of one job whose trace is sampled (docs/guides/traces.md). Times are UNIX milliseconds.
struct JobTrace {
    /// The context of the message: the publishing, or the try before this one.
    let sender: TraceContext
    /// The context of this try. A retry's message carries it, so that all tries of a job have one trace.
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

    /// Makes the span from the taking of the job to the decision about its last delivery.
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
