import Metrics
package import Observability
import OpenSSL
package import Postgres
import PushModel
import SystemIO
package import TokenServiceApps
package import TokenServiceKit
import TokenServiceRegistry

/// `POST /v1/apps/{app}/notifications`: one durable transaction, then 202, then the publishing. Requests that come
/// while a commit is under way share the next one. A long list has a transaction of its own.
package struct NotificationIntake: Sendable {
    private static let maximumBatch = 128
    /// A third of the statement's cost does not depend on the number of items: fewer than that are faster in the next batch, which begins
    /// as soon as the first is committed.
    private static let worthwhileBatch = 64
    private static let concurrentBatches = 2
    /// The limit for the whole transaction of a long list, waiting for a connection included.
    private static let longListDeadline = Duration.seconds(30)
    /// How long a request waits for another one that is using its idempotency key. It waits in no transaction.
    private static let keyPatience = Duration.milliseconds(1500)

    private let pool: PostgresPool
    private let publisher: JobPublisher
    private let backlog: PublishBacklog
    private let relay: WorkSignal
    private let holds: HoldCache
    private let traces: Traces
    private let metrics: NotificationMetrics
    private let queue: CommitQueue<NotificationStore.Item, NotificationStore.Insertion>

    package init(
        pool: PostgresPool, publisher: JobPublisher, backlog: PublishBacklog, relay: WorkSignal, holds: HoldCache, traces: Traces,
        metrics: NotificationMetrics
    ) {
        self.pool = pool
        self.publisher = publisher
        self.backlog = backlog
        self.relay = relay
        self.holds = holds
        self.traces = traces
        self.metrics = metrics
        queue = CommitQueue(
            "/notifications", maximumBatch: Self.maximumBatch, worthwhileBatch: Self.worthwhileBatch, concurrency: Self.concurrentBatches,
            // Of the items of batches an app has a quarter: five batches of a thousand at once.
            maximumWaiting: 20_000, owner: { $0.notification.app.text },
            commit: { items, onward in
                await pool.commitSeries(items, onward: onward) { items, session in
                    Transactions(session: session, metrics: metrics).commit(items)
                }
            },
            afterwards: { items, insertions in publisher.publish(Self.jobs(of: items, insertions)) })
    }

    package struct Acceptance: Sendable {
        package var receipt: AcceptedNotification
        /// The same request was accepted before; nothing new was written.
        package var isReplay: Bool
    }

    /// - Throws: ``BacklogFull``, ``ActivityExists``, ``IdempotencyMismatch``, ``IdempotencyInProgress``, ``CommitQueueFull``,
    ///   `PostgresError`. Without an error the notification is committed.
    package func accept(
        _ request: NotificationRequest, app: App, idempotency: IdempotencyKey?, trace: TraceContext, now: Int64
    ) async throws -> Acceptance {
        #if PUSH_DELIBERATE_FAULTS
            if DeliberateFault.chosen == .unlockedIdempotency, let key = idempotency {
                let earlier = try await pool.session { session in try IdempotencyRecords(session: session, app: app).earlier(key) }
                let first = try await accept([(request, key)], app: app, trace: trace, now: now)[0].get()
                guard earlier == nil, first.isReplay else { return first }
                return try await accept(request, app: app, idempotency: nil, trace: trace, now: now)
            }
        #endif
        try backlog.admit(AppLane(app: app.slug, lane: request.lane))
        let submission = submission(request, app: app, idempotency: idempotency, trace: trace, now: now)
        let began = traces.isOn && trace.isSampled ? WallClock.nanoseconds() : nil
        let insertion: Result<NotificationStore.Insertion, any Error>
        do { insertion = .success(try await commit(submission.item)) } catch { insertion = .failure(error) }
        if let began {
            traces.record(Span("commit notification", .inner, trace.child(), parent: trace, start: began, submission, insertion))
        }
        return try answer(submission, insertion).get()
    }

    private func commit(_ item: NotificationStore.Item) async throws -> NotificationStore.Insertion {
        let end = ContinuousClock.now + Self.keyPatience
        var pause = Duration.milliseconds(10)
        while true {
            let insertion = try await commitOnce(item)
            guard insertion == .keyInProgress, ContinuousClock.now < end, await Pause.of(pause) else { return insertion }
            pause = min(pause * 2, .milliseconds(200))
        }
    }

    /// One answer for each, in their order. Those whose key is in use are tried again by themselves.
    private func commit(_ items: [NotificationStore.Item]) async -> [Result<NotificationStore.Insertion, any Error>] {
        let end = ContinuousClock.now + Self.keyPatience
        var (answers, pause) = (await queue.submit(items), Duration.milliseconds(10))
        while ContinuousClock.now < end {
            let waiting = items.indices.filter { if case .success(.keyInProgress) = answers[$0] { true } else { false } }
            guard !waiting.isEmpty, await Pause.of(pause) else { break }
            pause = min(pause * 2, .milliseconds(200))
            for (index, answer) in zip(waiting, await queue.submit(waiting.map { items[$0] })) { answers[index] = answer }
        }
        return answers
    }

    /// A hundred thousand rows take seconds: a batch's other requests would wait for them.
    private func commitOnce(_ item: NotificationStore.Item) async throws -> NotificationStore.Insertion {
        guard item.notification.request.target.isLong else { return try await queue.submit(item) }
        let insertions = try await pool.transaction(deadline: Self.longListDeadline) { session in
            try NotificationStore(session: session).insert([item])
        }
        guard let insertion = insertions.first else { throw MissingAnswer() }
        return insertion
    }

    /// Accepts many requests of one caller, each as if it had come alone. They share transactions. Of two with the same key, the later one
    /// gets the result of the first.
    /// - Returns: One answer for each, in their order.
    package func accept(
        _ requests: [(request: NotificationRequest, idempotency: IdempotencyKey?)], app: App, trace: TraceContext, now: Int64
    ) async -> [Result<Acceptance, any Error>] {
        let began = traces.isOn && trace.isSampled ? WallClock.nanoseconds() : nil
        var answers: [Int: Result<Acceptance, any Error>] = [:]
        var keys: Set<String> = []
        let areFirst = requests.map { request in request.idempotency.map { keys.insert($0.key).inserted } ?? true }
        for wave in [true, false] {
            var submissions: [(index: Int, submission: Submission)] = []
            for (index, request) in requests.enumerated() where areFirst[index] == wave {
                do {
                    try backlog.admit(AppLane(app: app.slug, lane: request.request.lane))
                    // Thousands of spans in one trace could not be read: each notification has a trace of its own, linked to the batch's.
                    let submission = submission(
                        request.request, app: app, idempotency: request.idempotency, trace: began == nil ? trace : .random(), now: now)
                    submissions.append((index, submission))
                } catch {
                    answers[index] = .failure(error)
                }
            }
            let insertions = await commit(submissions.map { $0.submission.item })
            for ((index, submission), insertion) in zip(submissions, insertions) {
                if let began {
                    traces.record(
                        Span(
                            "accept notification", .inner, submission.trace, parent: nil, start: began, submission, insertion,
                            links: [trace]))
                }
                answers[index] = answer(submission, insertion)
            }
        }
        return requests.indices.map { answers[$0] ?? .failure(MissingAnswer()) }
    }

    /// A request on its way into the queue. The backlog counts it until ``answer(_:_:)``.
    fileprivate struct Submission {
        let item: NotificationStore.Item
        let trace: TraceContext
        /// The relay puts held jobs aside. They do not count as backlog: that would keep notifications from being accepted that are not
        /// held.
        let isHeld: Bool
    }

    private func submission(
        _ request: NotificationRequest, app: App, idempotency: IdempotencyKey?, trace: TraceContext, now: Int64
    ) -> Submission {
        var random = PooledRandom()
        let notification = Notification(
            id: .timeOrdered(milliseconds: now, using: &random), app: app.slug,
            topic: request.pushType.topic(bundleID: app.bundleID),
            request: request, acceptedAt: now, traceparent: trace.traceparent)
        let isHeld = holds.holds(app: app.id, lane: request.lane, notification: nil, now: now)
        let item = NotificationStore.Item(
            notification: notification, app: app, idempotency: idempotency, leaseSeconds: isHeld ? 0 : publisher.leaseForNewcomers)
        return Submission(item: item, trace: trace, isHeld: isHeld)
    }

    /// The answer to a submission that was admitted to the backlog.
    private func answer(
        _ submission: Submission, _ insertion: Result<NotificationStore.Insertion, any Error>
    ) -> Result<Acceptance, any Error> {
        var waits = false
        let notification = submission.item.notification
        defer { backlog.endAcceptance(AppLane(app: notification.app, lane: notification.request.lane), waits: waits) }
        switch insertion {
        case .failure(let error): return .failure(error)
        case .success(.replay(let receipt)): return .success(Acceptance(receipt: receipt, isReplay: true))
        case .success(.mismatch): return .failure(IdempotencyMismatch())
        case .success(.activityExists): return .failure(ActivityExists())
        case .success(.keyInProgress): return .failure(IdempotencyInProgress())
        case .success(.leftToFanOut):
            waits = notification.request.timing.isAtOnce && !submission.isHeld
            relay.signal()
            return .success(Acceptance(receipt: notification.receipt(deliveries: nil), isReplay: false))
        case .success(.resolved(let deliveries)):
            waits = !deliveries.isEmpty && !submission.isHeld
            return .success(Acceptance(receipt: notification.receipt(deliveries: deliveries.count), isReplay: false))
        }
    }
}

extension Span {
    fileprivate init(
        _ name: String, _ kind: Kind, _ context: TraceContext, parent: TraceContext?, start: Int64,
        _ submission: NotificationIntake.Submission, _ insertion: Result<NotificationStore.Insertion, any Error>, links: [TraceContext] = []
    ) {
        let notification = submission.item.notification
        let isCommitted = if case .success = insertion { true } else { false }
        self.init(
            name, kind, context, parent: parent, start: start, end: WallClock.nanoseconds(),
            [
                ("push.app", .text(notification.app.text)), ("push.notification", .text(notification.id.description)),
                ("push.lane", .text(notification.request.lane.rawValue)),
            ], links: links, fault: isCommitted ? nil : "not committed")
    }
}

extension NotificationIntake {
    /// The jobs that this process publishes: those of a batch go to the broker together.
    private static func jobs(
        of items: [NotificationStore.Item], _ insertions: [Result<NotificationStore.Insertion, any Error>]
    ) -> [PublishableJob] {
        zip(items, insertions).flatMap { item, insertion -> [PublishableJob] in
            guard item.leaseSeconds > 0, case .success(.resolved(let deliveries)) = insertion else { return [] }
            return item.notification.template.jobs(deliveries)
        }
    }

    private struct Transactions {
        let session: PostgresSession
        let metrics: NotificationMetrics

        /// One answer per item, in their order. If the database refuses one item, the others must not fail.
        func commit(_ items: [NotificationStore.Item]) -> [Result<NotificationStore.Insertion, any Error>] {
            var results: [Int: Result<NotificationStore.Insertion, any Error>] = [:]
            var left = Array(items.indices)
            while !left.isEmpty {
                let round = Self.distinct(left, of: items)
                for (index, result) in zip(round, session.inParts(round.map { items[$0] }, attempt)) { results[index] = result }
                left.removeAll { round.contains($0) }
            }
            return items.indices.map { results[$0] ?? .failure(MissingAnswer()) }
        }

        /// Leaves out later requests with the same key: each gets the result of the first.
        private static func distinct(_ indices: [Int], of items: [NotificationStore.Item]) -> [Int] {
            var keys: Set<String> = []
            return indices.filter { index in
                guard let key = items[index].idempotency else { return true }
                return keys.insert("\(items[index].app.id) \(key.caller) \(key.key)").inserted
            }
        }

        private func attempt(_ items: [NotificationStore.Item]) throws -> [Result<NotificationStore.Insertion, any Error>] {
            try session.retryingTransaction { session in
                try NotificationStore(session: session, onSuperseded: metrics.superseded).insert(items)
            }.map { .success($0) }
        }
    }
}

extension Notification {
    fileprivate func receipt(deliveries: Int?) -> AcceptedNotification {
        let due = request.timing.notBefore ?? request.timing.localTime?.earliest ?? acceptedAt
        return AcceptedNotification(
            id: id, app: app, lane: request.lane, pushType: request.pushType, deliveries: deliveries,
            isScheduled: due > acceptedAt, acceptedAt: acceptedAt, expiresAt: request.expiresAt, warnings: request.warnings)
    }
}

extension NotificationRequest.Timing {
    fileprivate var isAtOnce: Bool { notBefore == nil && localTime == nil }
}

/// Counts accepted notifications and superseded updates.
package struct NotificationMetrics: Sendable {
    private let accepted: [Lane: (new: Counter, replay: Counter)]
    private let supersededUpdates: Counter

    package init(_ registry: PrometheusMetrics) {
        let accepted = registry.counters(
            "push_token_service_notifications_accepted_total", ["lane", "replay"], "Notifications accepted, and repeats of accepted ones.")
        self.accepted = Dictionary(
            uniqueKeysWithValues: Lane.allCases.map { ($0, (new: accepted[$0.rawValue, "false"], replay: accepted[$0.rawValue, "true"])) })
        supersededUpdates = registry.counter(
            "push_token_service_updates_superseded_total",
            "Updates of Live Activities and broadcasts that a newer state replaced before they were sent.")
    }

    func accepted(lane: Lane, isReplay: Bool) {
        guard let counters = accepted[lane] else { return }
        (isReplay ? counters.replay : counters.new).increment()
    }

    /// Updates of Live Activities and channels.
    package func superseded(_ number: Int) { supersededUpdates.increment(by: number) }
}

/// A sender's `Idempotency-Key` with its use: one key of one caller in one app, one notification, today and tomorrow (UTC).
package struct IdempotencyKey: Equatable, Sendable {
    package static let maximumBytes = 255

    package let caller: String
    package let key: String
    /// SHA-256 of the request's body.
    package let fingerprint: [UInt8]

    package init(caller: String, key: String, fingerprint: [UInt8]) {
        self.caller = caller
        self.key = key
        self.fingerprint = fingerprint
    }
}

extension IdempotencyKey {
    /// A key as a sender states it.
    /// - Parameters:
    ///   - place: Its place in the request.
    ///   - body: The body that it is used for.
    /// - Throws: ``APIError`` where it is empty, too long or not printable ASCII.
    init(_ key: String, at place: String, of caller: Caller, body: [UInt8]) throws(APIError) {
        guard (1...Self.maximumBytes).contains(key.utf8.count), key.utf8.allSatisfy({ (0x20...0x7e).contains($0) }) else {
            throw APIError.invalid(place, .invalidIdempotencyKey, "must be 1 to \(Self.maximumBytes) printable ASCII characters")
        }
        self.init(caller: caller.keyID, key: key, fingerprint: Digest.sha256(body))
    }
}

/// Another process works on a request with the key, for longer than a caller waits.
package struct IdempotencyInProgress: ProblemError {
    package var problem: APIError {
        APIError(
            .idempotencyInProgress,
            "another request with this key is still being worked on; repeat this one to learn what became of it")
    }
}

/// The key was used before, for another request.
package struct IdempotencyMismatch: ProblemError {
    package var problem: APIError {
        APIError(.idempotencyKeyReused, "this key was used with another body today or yesterday (UTC)")
    }
}
