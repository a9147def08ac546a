package import Broker
package import Logging
import Metrics
package import Observability
package import Postgres
package import PushModel
package import ServiceLifecycle
import Synchronization
import TokenServiceApps
package import TokenServiceKit
package import TokenServiceSending

/// Reads one log for one sink in batches, and records its position in the database. It publishes every event at least once: after a crash
/// the same ids again. Every process runs the feed; the one with its lease reads.
///
/// An app whose events a queue does not take falls behind, and the others go on. So does an app with more messages for webhooks than its
/// share of a round: it gets a share in each of the next rounds. Its own position is recorded beside that of all others, so that a process
/// that takes over goes on with each app where it was.
package final class EventFeed: Service {
    /// A row of `event_feeds`.
    package struct Name: Sendable {
        package let log: EventLog
        package let sink: EventSink.Kind
    }

    private static let batch = 500
    /// Rows that one round passes at most, of all apps; it reads ``batch`` events of them at most.
    private static let stride: Int64 = 50_000
    /// The pause between two rounds: with nothing to read, with rows that cannot be read yet, without the lease.
    private static let idlePause = Duration.milliseconds(500)
    private static let shortPause = Duration.milliseconds(50)
    private static let leaselessPause = Duration.seconds(5)
    /// The pause between two events that ask whether an app's queues take events again.
    private static let askingPause = Duration.seconds(2)

    package let name: Name
    private let pool: PostgresPool
    private let sink: EventSink
    private let lease: Lease
    private let metrics: EventMetrics
    private let logger: Logger
    private let waiting = Atomic<Int64>(0)

    package init(name: Name, pool: PostgresPool, sink: EventSink, metrics: EventMetrics, logger: Logger) {
        self.name = name
        self.pool = pool
        self.sink = sink
        self.metrics = metrics
        self.logger = logger
        lease = Lease("events_\(name.log.rawValue)_\(name.sink.rawValue)", seconds: 30)
    }

    /// Rows that this process has still to read; none while another process has the lease.
    var waitingCount: Int64 { waiting.load(ordering: .relaxed) }

    /// The state of the process with the lease.
    private struct Reader {
        /// Rows up to its position are done, but for those of the apps that are behind.
        var log: LogProgress
        var behind: [App.ID: Behind] = [:]
        /// Who wanted events at the last round that had rows to read.
        var interest: EventSink.Interest?
        var renewed = ContinuousClock.now

        init(of name: EventFeed.Name, in session: PostgresSession) throws {
            let store = EventStore(session: session)
            log = LogProgress(position: try store.position(of: name))
            for late in try store.behind(in: name) { behind[late.app] = Behind(slug: late.slug, position: late.position) }
        }

        /// Rows up to here are done for every app.
        var lowest: Int64 { behind.values.reduce(log.position) { min($0, $1.position) } }

        /// An app that has fallen behind in this step may be ahead of what the step has stored so far: a new reader would pass over the
        /// rows between.
        var recordable: [App.ID: Int64] { behind.mapValues { min($0.position, log.position) } }
    }

    /// An app whose events were not confirmed, or were more than its share.
    private struct Behind {
        let slug: AppSlug
        /// The app's rows up to here are done.
        var position: Int64
        var asked: (question: EventSink.Question, position: Int64)?
        var askAt = ContinuousClock.now
    }

    package func run() async throws {
        await cancelWhenGracefulShutdown {
            var pause = Self.idlePause
            var reader: Reader?
            while await Pause.of(pause) {
                do {
                    pause = try await self.round(&reader)
                } catch is CancellationError {
                    break
                } catch {
                    if !(error is LeaseLost), !Task.isCancelled { self.report(error) }
                    reader = nil
                    pause = Self.leaselessPause
                }
            }
            if reader != nil { await self.lease.release(in: self.pool, logger: self.logger) }
        }
    }

    private func round(_ reader: inout Reader?) async throws -> Duration {
        reader = try await renewed(reader)
        guard var now = reader else {
            waiting.store(0, ordering: .relaxed)
            return Self.leaselessPause
        }
        let horizon = try await pool.session { [name] session in try EventStore(session: session).horizon(of: name.log) }
        now.log.see(horizon)
        let interest = try await interest(of: now)
        now.interest = interest
        var hasMore = false
        now.behind = now.behind.filter { interest.apps.contains($0.key) }
        if !interest.apps.isEmpty, sink.isReady {
            if sink.isBroker { try await catchUp(&now) } else { try await storeShares(&now, interest) }
            hasMore = try await read(&now, interest)
            if !sink.isBroker, !now.behind.isEmpty { hasMore = true }
        } else if interest.apps.isEmpty, ContinuousClock.now - now.renewed > .seconds(5) {
            // No app wants events. An app that asks for them later gets events from then on, and those of some seconds before.
            try await advance(&now, to: now.log.readable)
        }
        reader = now
        waiting.store(interest.apps.isEmpty ? 0 : now.log.last - now.lowest, ordering: .relaxed)
        let isPressing = now.log.last > now.log.position && !interest.apps.isEmpty && sink.isReady
        return hasMore ? .zero : isPressing ? Self.shortPause : Self.idlePause
    }

    /// Returns the known interest while there is nothing to read: there may be thousands of webhooks. Otherwise reads it after the horizon,
    /// so that an app that asks for events gets all that are written from then on.
    private func interest(of now: Reader) async throws -> EventSink.Interest {
        if let known = now.interest, now.log.readable <= now.log.position, now.behind.isEmpty { return known }
        return try await pool.session { [name, sink] session in try sink.interest(in: name.log, session) }
    }

    /// Asks with one event for each app that is behind, and publishes its others once that is confirmed.
    private func catchUp(_ now: inout Reader) async throws {
        let before = now.behind.mapValues(\.position)
        for (app, behind) in now.behind where behind.asked?.question.isConfirmed != nil || behind.asked == nil && behind.askAt <= .now {
            var behind = behind
            let isTaken = behind.asked?.question.isConfirmed
            if let asked = behind.asked.take(), isTaken == true { behind.position = asked.position }
            behind.askAt = .now + Self.askingPause
            if isTaken != false {
                let (start, end) = (behind.position, min(now.log.position, behind.position + Self.stride))
                let limit = isTaken == nil ? 1 : Self.batch
                let entries = try await entries(after: start, upTo: end, of: [app], limit: limit)
                if isTaken == nil, let entry = entries.first {
                    behind.asked = (sink.ask(entry.event), entry.position)
                } else {
                    let missed = await sink.publish(entries.map(\.event))[app]
                    let done = missed ?? entries.count
                    if done > 0 { behind.position = entries[done - 1].position }
                    metrics.publishedEvents(done, of: name)
                    if missed == nil, entries.count < limit { behind.position = end }
                    if missed == nil, entries.count < limit, end == now.log.position {
                        now.behind[app] = nil
                        logger.notice("All events of an app are published again", metadata: metadata(behind.slug))
                        continue
                    }
                    if missed == nil { behind.askAt = .now }
                }
            }
            now.behind[app] = behind
        }
        if now.behind.mapValues(\.position) != before { try await advance(&now, to: now.log.position) }
    }

    /// Stores the next share of each app that had more in an earlier round.
    private func storeShares(_ now: inout Reader, _ interest: EventSink.Interest) async throws {
        for (app, behind) in now.behind {
            let (start, limit) = (behind.position, interest.eventsOfShare(of: behind.slug))
            let end = min(now.log.position, start + Self.stride)
            let entries = try await entries(after: start, upTo: end, of: [app], limit: limit)
            let isRest = entries.count < limit
            try await store(entries, upTo: isRest ? end : entries.last?.position ?? end, ofBehind: app, for: interest, &now)
            if isRest, end == now.log.position { now.behind[app] = nil }
        }
    }

    private func fellBehind(_ app: App.ID, at entry: EventStore.Entry, _ now: inout Reader) {
        now.behind[app] = Behind(slug: entry.event.slug, position: entry.position - 1, askAt: .now + Self.askingPause)
        logger.warning(
            "An app's events wait: a queue that is bound to them takes none, or does not answer", metadata: metadata(entry.event.slug))
    }

    private func metadata(_ app: AppSlug) -> Logger.Metadata {
        [
            LogKey.app: "\(app.text)", LogKey.eventLog: "\(name.log.rawValue)",
            LogKey.eventSink: "\(name.sink.rawValue)",
        ]
    }

    /// - Returns: whether more can be read at once.
    private func read(_ now: inout Reader, _ interest: EventSink.Interest) async throws -> Bool {
        let (position, end) = (now.log.position, min(now.log.readable, now.log.position + Self.stride))
        guard end > position else { return false }
        let apps = interest.apps.filter { now.behind[$0] == nil }
        var entries = try await entries(after: position, upTo: end, of: apps, limit: Self.batch)
        var target = entries.count < Self.batch ? end : entries.last?.position ?? end
        let portion = interest.portion(of: entries.map(\.event))
        if portion.count < entries.count {
            target = entries[portion.count - 1].position
            entries.removeLast(entries.count - portion.count)
        }
        for (app, index) in portion.late {
            now.behind[app] = Behind(slug: entries[index].event.slug, position: entries[index].position - 1)
        }
        let missed = await sink.publish(entries.map(\.event))
        // The connection is lost: that is no app's fault.
        guard missed.isEmpty || sink.isReady else { return false }
        for (app, index) in missed { fellBehind(app, at: entries[index], &now) }
        let left = missed.merging(portion.late) { min($0, $1) }
        entries = zip(0..., entries).filter { index, entry in index < left[entry.event.app] ?? .max }.map(\.1)
        try await store(entries, upTo: target, for: interest, &now)
        return target < now.log.readable
    }

    /// Stores events and records in the same transactions how far they go.
    /// - Parameters:
    ///   - target: The last row that is done with them.
    ///   - app: The app that is behind and has all of these events; nil for those of the apps that are not.
    private func store(
        _ entries: [EventStore.Entry], upTo target: Int64, ofBehind app: App.ID? = nil, for interest: EventSink.Interest,
        _ now: inout Reader
    ) async throws {
        var split = BatchSplit(entries.count)
        var (faults, written): ([any Error], Int) = ([], 0)
        while let part = split.next() {
            let reached = part.upperBound < entries.count ? entries[part.upperBound - 1].position : target
            let events = entries[part].map(\.event)
            let recorded = faults.isEmpty ? reached : app.flatMap { now.behind[$0]?.position } ?? now.log.position
            do {
                try await advance(&now, ofBehind: app, to: recorded) { [sink] session in try sink.store(events, for: interest, session) }
                written += interest.webhooks.isEmpty ? events.count : events.count { !interest.webhooks(for: $0).isEmpty }
                sink.stored(events.count)
                metrics.publishedEvents(events.count, of: name)
            } catch {
                guard Refusal(error) != .outage else { throw error }
                if split.split(part) { continue }
                // Events keep their order: an event that the database may store later stops those behind it; an event that it never stores
                // is left out. So is one that alone meets a fault of the program, if at least as many others are stored: till then the
                // position stays before it.
                switch Refusal(error) {
                case .values:
                    leaveOut(error)
                    if faults.isEmpty { try await advance(&now, ofBehind: app, to: reached) }
                case .fault where faults.count < BatchSplit.maximumFaults: faults.append(error)
                case .fault, .size, .outage: throw error
                }
            }
        }
        if let fault = faults.first, faults.count > written { throw fault }
        for fault in faults { leaveOut(fault) }
        if entries.isEmpty || !faults.isEmpty { try await advance(&now, ofBehind: app, to: target) }
    }

    private func entries(after position: Int64, upTo end: Int64, of apps: [App.ID], limit: Int) async throws -> [EventStore.Entry] {
        try await pool.session { session in
            try EventStore(session: session).entries(
                of: self.name.log, after: position, upTo: end, apps: apps, limit: limit, onUnreadable: { self.leaveOut($1, row: $0) })
        }
    }

    private func renewed(_ reader: Reader?) async throws -> Reader? {
        if let reader, ContinuousClock.now - reader.renewed < .seconds(lease.seconds) / 3 { return reader }
        return try await pool.transaction { [name, lease] session in
            guard try lease.take(in: session) else { return nil }
            guard var reader else { return try Reader(of: name, in: session) }
            reader.renewed = .now
            return reader
        }
    }

    /// - Parameter app: The app that is behind and advances; nil for the apps that are not.
    private func advance(
        _ now: inout Reader, ofBehind app: App.ID? = nil, to position: Int64,
        _ store: @escaping @Sendable (PostgresSession) throws -> Void = { _ in }
    ) async throws {
        var next = now
        if let app { next.behind[app]?.position = position } else { next.log.position = position }
        let (reached, behind) = (next.log.position, next.recordable)
        try await pool.transaction { [name, lease] session in
            try lease.renew(in: session)
            try EventStore(session: session).advance(name, to: reached, behind: behind)
            try store(session)
        }
        now = next
        now.renewed = .now
    }

    /// - Parameter row: The row's number in the log, where the row itself cannot be read.
    private func leaveOut(_ error: any Error, row: Int64? = nil) {
        var metadata: Logger.Metadata = [LogKey.eventLog: "\(name.log.rawValue)", LogKey.eventSink: "\(name.sink.rawValue)"]
        if let row { metadata[LogKey.eventRow] = "\(row)" }
        logger.failed("An event is left out: it can never be read or stored", error, metadata)
    }

    private func report(_ error: any Error) {
        logger.failed(
            "Events could not be published", error, [LogKey.eventLog: "\(name.log.rawValue)", LogKey.eventSink: "\(name.sink.rawValue)"])
    }
}

/// Counts published events and shows how many wait.
package struct EventMetrics: Sendable {
    private let published: MetricSeries<Counter>
    let waiting: GaugeMetric

    package init(_ registry: PrometheusMetrics) {
        published = registry.counters(
            "push_token_service_events_published_total", ["log", "sink"],
            "State changes that were published, or looked at for webhooks. Log: notifications, installations, device_receipts; "
                + "Sink: broker, webhooks.")
        for log in EventLog.allCases { for sink in EventSink.Kind.allCases { _ = published[log.rawValue, sink.rawValue] } }
        waiting = registry.gauge(
            "push_token_service_events_waiting", ["log", "sink"],
            "Rows of a log that this process is still to read; 0 in processes that do not read it; alert when it grows. The sink `counts`: "
                + "device receipts that are not in their notifications' counts yet.")
    }

    func observe(_ feeds: [EventFeed]) {
        for feed in feeds { waiting.observe(feed.name.log.rawValue, feed.name.sink.rawValue) { Double(feed.waitingCount) } }
    }

    func publishedEvents(_ number: Int, of feed: EventFeed.Name) {
        published[feed.log.rawValue, feed.sink.rawValue].increment(by: number)
    }
}

/// All parts that publish events.
package struct EventStream: Sendable {
    package let subscriptions: WebhookSubscriptions
    let addresses: WebhookAddresses
    /// Wakes the dispatcher of webhooks.
    package let wakeUp: WorkSignal
    /// The services in the order in which they start.
    package let services: [any Service]

    package init(
        _ webhooks: WebhookSettings, pool: PostgresPool, publisher: Publisher, topology: Topology, marks: OutboxMarks,
        metrics: EventMetrics, webhookMetrics: WebhookMetrics, logger: Logger
    ) {
        let wakeUp = WorkSignal()
        self.wakeUp = wakeUp
        subscriptions = WebhookSubscriptions(pool: pool, wakeUp: wakeUp)
        let dispatcher = WebhookDispatcher(
            pool: pool, settings: webhooks, waiting: marks.webhookMessages, wakeUp: wakeUp, metrics: webhookMetrics,
            logger: logger)
        addresses = dispatcher.addresses
        let sinks: [(EventSink.Kind, EventSink)] = [(.broker, .broker(publisher, topology)), (.webhooks, .webhooks(wakeUp))]
        let feeds = sinks.flatMap { kind, sink in
            EventLog.allCases.map { log in
                EventFeed(name: EventFeed.Name(log: log, sink: kind), pool: pool, sink: sink, metrics: metrics, logger: logger)
            }
        }
        let counter = DeviceReceiptCounter(pool: pool, logger: logger)
        metrics.observe(feeds)
        metrics.waiting.observe(EventLog.deviceReceipts.rawValue, "counts") { Double(counter.waitingCount) }
        webhookMetrics.lag.observe { dispatcher.lag }
        services = [dispatcher] + feeds + [counter]
    }
}
