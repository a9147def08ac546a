package import Logging
import Metrics
package import Observability
package import Postgres
package import PushModel
package import TokenServiceApps
package import TokenServiceKit

/// Sets and lifts holds: the row first, then the control stream, then the answer. The relay publishes holds that a dead process left
/// unpublished, and every hold again once a day.
package struct HoldService: Sendable {
    /// Rows of each table that one round releases: they are published before more are released.
    private static let releaseBatch = 1000

    package let cache: HoldCache
    private let pool: PostgresPool
    private let control: ControlPublisher
    private let relay: WorkSignal
    private let metrics: HoldMetrics
    private let logger: Logger

    /// - Parameter cache: The one of the process.
    package init(
        pool: PostgresPool, control: ControlPublisher, relay: WorkSignal, metrics: HoldMetrics, logger: Logger,
        cache: HoldCache = HoldCache()
    ) {
        self.pool = pool
        self.control = control
        self.relay = relay
        self.metrics = metrics
        self.logger = logger
        self.cache = cache
    }

    /// - Parameters:
    ///   - app: nil: over every app.
    ///   - key: the id of the API key that asks.
    /// - Throws: ``TooManyHolds``, ``UnknownNotification``, `PostgresError`; then nothing is held.
    package func set(_ request: HoldRequest, app: App?, by key: String) async throws -> Hold {
        let id = PushID.timeOrdered(milliseconds: UnixTime.milliseconds())
        var hold = try await pool.transaction { session in
            try HoldStore(session: session, app: app).insert(request, by: key, id: id)
        }
        cache.add(hold)
        await publish(&hold)
        logger.notice("A hold was set", metadata: Self.metadata(hold, key: key))
        return hold
    }

    /// - Parameter app: nil for any hold; with an app, only its holds.
    /// - Returns: the hold; one that was over already, as it is.
    /// - Throws: ``APIError`` 404 if there is none, `PostgresError`; then nothing was lifted.
    package func lift(_ id: PushID, app: App?, by key: String) async throws -> Hold {
        var hold = try await pool.transaction { session in try HoldStore(session: session, app: app).lift(id, by: key) }
        guard hold.state == .lifted, hold.publishedAt == nil else { return hold }
        await publish(&hold)
        logger.notice("A hold was lifted", metadata: Self.metadata(hold, key: key))
        // The relay releases the jobs and fan-outs that wait because of the hold.
        relay.signal()
        return hold
    }

    // MARK: The relay's part

    /// Brings ``cache`` up to date.
    /// - Returns: holds that may have to be published or released.
    func refresh() async throws -> HoldOutbox.Unfinished {
        let added = cache.added
        let read = try await pool.session { session in try HoldOutbox(session: session).unfinished() }
        cache.replace(with: read.holds, readAfter: added)
        return read
    }

    /// Publishes the holds in force that are due.
    func publishSet(_ read: HoldOutbox.Unfinished) async {
        await publishAgain(read.holds.filter { $0.state != .lifted && $0.isDue(now: read.now) })
    }

    /// Publishes the liftings that are due, and releases the jobs and fan-outs that wait because of lifted holds.
    func publishLiftedAndRelease(_ read: HoldOutbox.Unfinished) async throws {
        await publishAgain(read.holds.filter { $0.state == .lifted && $0.isDue(now: read.now) })
        for hold in read.holds where hold.state == .lifted {
            let place = cache.place(of: hold.id)
            let (count, end) = try await pool.transaction { session in
                try HoldOutbox(session: session).release(hold.id, after: place, limit: Self.releaseBatch)
            }
            cache.released(hold.id, to: end)
            // More rows may wait; the relay publishes the released ones first.
            if count > 0 || place != nil { relay.signal() }
        }
    }

    private func publishAgain(_ due: [Hold]) async {
        if !due.isEmpty, await publish(due).count == due.count {
            logger.info("Holds were published again", metadata: [LogKey.count: "\(due.count)"])
        }
    }

    func putAside(_ number: Int) { metrics.putAside(number) }

    private func publish(_ hold: inout Hold) async {
        if await !publish([hold]).isEmpty { hold.publishedAt = UnixTime.milliseconds() }
    }

    /// - Returns: The holds that the broker has confirmed.
    private func publish(_ holds: [Hold]) async -> [Hold] {
        let now = UnixTime.milliseconds()
        let confirmed = await control.publish(
            holds.map { hold in
                if let lifting = hold.lifting { return .unhold(id: hold.id, at: lifting.at) }
                return .hold(id: hold.id, scope: hold.scope, endsAt: hold.endsAt, at: now)
            })
        let published = zip(holds, confirmed).filter(\.1).map(\.0)
        do {
            try await pool.session { session in try HoldOutbox(session: session).markPublished(published) }
        } catch {
            // The hold is set or lifted all the same; the relay publishes it once more.
            logger.failed("It could not be recorded that holds were published", error)
        }
        return published
    }

    private static func metadata(_ hold: Hold, key: String) -> Logger.Metadata {
        [
            LogKey.hold: "\(hold.id)", LogKey.app: "\(hold.scope.app?.text ?? "all")", LogKey.lane: "\(hold.scope.lane?.rawValue ?? "all")",
            LogKey.notification: "\(hold.scope.notification?.description ?? "all")", LogKey.keyID: "\(key)",
        ]
    }
}

/// Counts holds and the work that they put aside.
package struct HoldMetrics: Sendable {
    private let holds: GaugeMetric
    private let heldBack: Counter

    package init(_ registry: PrometheusMetrics) {
        holds = registry.gauge("push_token_service_holds", "What is held: scopes with a hold in force, as this process saw them last.")
        heldBack = registry.counter(
            "push_token_service_publish_held_total",
            "Fan-outs and jobs that were due and put aside because of a hold, each time that they were.")
    }

    func observe(_ cache: HoldCache) { holds.observe { Double(cache.count) } }
    func putAside(_ number: Int) { heldBack.increment(by: number) }
}
