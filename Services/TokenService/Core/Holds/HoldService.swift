package import Logging
package import Postgres
package import PushModel

/// Sets and lifts holds: the row first, then the control stream, then the answer. What a process that died has left over, and what has to be
/// published again, the relay's rounds do.
package struct HoldService: Sendable {
    /// Of each table, in a round: what is given back is published before more is.
    private static let releaseBatch = 1000

    package let book: HoldBook
    private let pool: PostgresPool
    private let control: ControlPublisher
    private let relay: RelayPulse
    private let metrics: TokenServiceMetrics
    private let logger: Logger

    package init(pool: PostgresPool, control: ControlPublisher, relay: RelayPulse, metrics: TokenServiceMetrics, logger: Logger) {
        self.pool = pool
        self.control = control
        self.relay = relay
        self.metrics = metrics
        self.logger = logger
        book = HoldBook()
    }

    /// - Parameters:
    ///   - app: nil: over every app.
    ///   - key: the id of the API key that asks.
    /// - Throws: ``TooManyHolds``, ``UnknownNotification``, `PostgresError`; then nothing is held.
    package func set(_ request: HoldRequest, app: App?, by key: String) async throws -> Hold {
        let id = PushID.timeOrdered(milliseconds: UnixTime.milliseconds())
        var hold = try await pool.transaction { session in
            try HoldStore(session: session).insert(request, app: app, by: key, id: id)
        }
        book.add(hold, app: app?.id)
        hold.isPublished = await publish([hold])
        logger.notice("A hold was set", metadata: Self.metadata(hold, key: key))
        return hold
    }

    /// - Parameter app: nil for any hold; otherwise those of that app alone.
    /// - Returns: nil where there is none; one that was over already, as it is.
    /// - Throws: `PostgresError`; then nothing was lifted.
    package func lift(_ id: PushID, app: App?, by key: String) async throws -> Hold? {
        let lifted = try await pool.transaction { session in try HoldStore(session: session).lift(id, app: app, by: key) }
        guard var hold = lifted, hold.state == .lifted, !hold.isPublished else { return lifted }
        hold.isPublished = await publish([hold])
        logger.notice("A hold was lifted", metadata: Self.metadata(hold, key: key))
        // Gives back what waits in the outbox.
        relay.beat()
        return hold
    }

    // MARK: The relay's part

    /// Brings ``book`` up to date.
    /// - Returns: what has to be published and released.
    func review() async throws -> [HoldStore.Entry] {
        let moment = book.added
        let holds = try await pool.session { session in try HoldStore(session: session).toPublish() }
        book.replace(with: holds, since: moment)
        return holds
    }

    /// Publishes what the control stream does not have or has had for long, and gives back what lifted holds kept.
    func keep(_ holds: [HoldStore.Entry]) async throws {
        let due = holds.filter(\.isDue).map(\.hold)
        if !due.isEmpty, await publish(due) {
            logger.info("Holds were published again", metadata: [LogKey.count: "\(due.count)"])
        }
        for item in holds where item.hold.state == .lifted {
            let id = item.hold.id
            let released = try await pool.transaction { session in
                try HoldStore(session: session).release(id, limit: Self.releaseBatch)
            }
            // More may wait; what this batch gave back goes first.
            if released > 0 { relay.beat() }
        }
    }

    func putAside(_ number: Int) { metrics.putAside(number) }

    /// - Returns: whether the broker has confirmed all of them.
    private func publish(_ holds: [Hold]) async -> Bool {
        let now = UnixTime.milliseconds()
        let confirmed = await control.publish(
            holds.map { hold in
                if let lifting = hold.lifting { return .unhold(id: hold.id, at: lifting.at) }
                return .hold(id: hold.id, scope: hold.scope, endsAt: hold.endsAt, at: now)
            })
        let published = zip(holds, confirmed).filter(\.1).map(\.0)
        do {
            try await pool.session { session in
                let store = HoldStore(session: session)
                try store.markPublished(published.filter { $0.lifting == nil }.map(\.id))
                try store.markLiftPublished(published.filter { $0.lifting != nil }.map(\.id))
            }
        } catch {
            // The hold is set or lifted all the same; the relay publishes it once more.
            logger.failed("It could not be written down that holds were published", error)
        }
        return published.count == holds.count
    }

    private static func metadata(_ hold: Hold, key: String) -> Logger.Metadata {
        [
            LogKey.hold: "\(hold.id)", LogKey.app: "\(hold.scope.app?.text ?? "all")", LogKey.lane: "\(hold.scope.lane?.rawValue ?? "all")",
            LogKey.notification: "\(hold.scope.notification?.description ?? "all")", LogKey.keyID: "\(key)",
        ]
    }
}
