package import Postgres
package import PushModel

/// The SQL of what waits to be published: the table `outbox`, which its processes publish themselves; notifications with `free_from`,
/// chunks and fences without `published_at`, which are the relay's.
package struct OutboxStore {
    private let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    // MARK: Settling

    package func markPublished(_ ids: [PushID]) throws {
        guard !ids.isEmpty else { return }
        try session.execute(Self.markPublished, [.ids(ids)])
    }

    /// Everything in these rows is published, or the relay's. To come before the notifications themselves.
    package func close(_ outbox: [Int64]) throws {
        guard !outbox.isEmpty else { return }
        try session.execute(Self.closeOutbox, [.int64Array(outbox)])
    }

    /// Lets the relay have what could not be published, a moment later.
    /// Of claimed walks.
    package func superseding(_ ids: [PushID]) throws -> Set<PushID> {
        Set(try session.execute(Self.superseding, [.ids(ids)]).map { row in try row.id(0) })
    }

    package func release(_ ids: [PushID]) throws {
        guard !ids.isEmpty else { return }
        try session.execute(Self.release, [.ids(ids)])
    }

    /// Published ones are done; the others are the relay's, a moment later.
    package func settle(_ chunks: [(id: ChunkID, isPublished: Bool)]) throws {
        guard !chunks.isEmpty else { return }
        try session.execute(Self.settleChunks, ChunkID.columns(chunks.map(\.id)) + [.boolArray(chunks.map(\.isPublished))])
    }

    package func renew(_ chunks: [ChunkID], seconds: Double) throws {
        guard !chunks.isEmpty else { return }
        try session.execute(Self.renewChunks, ChunkID.columns(chunks) + [.double(seconds)])
    }

    package func markPublished(fences: [Int64]) throws {
        guard !fences.isEmpty else { return }
        try session.execute(Self.markFencesPublished, [.int64Array(fences)])
    }

    package func renew(_ ids: [PushID], seconds: Double) throws {
        guard !ids.isEmpty else { return }
        try session.execute(Self.renew, [.ids(ids), .double(seconds)])
    }

    package func renew(outbox: [Int64], seconds: Double) throws {
        guard !outbox.isEmpty else { return }
        try session.execute(Self.renewOutbox, [.int64Array(outbox), .double(seconds)])
    }

    // MARK: Taking over

    /// How many wait; of each kind counted no further than `limit`.
    package func backlog(limit: Int, beyond: Int64) throws -> Int {
        Int(try session.execute(Self.backlog, [.int64(Int64(limit)), .int64(beyond)]).only().int64(0))
    }

    /// See ``OutboxReach/measured(last:first:at:)``.
    package func outboxBounds(beyond: Int64) throws -> (last: Int64, first: Int64?) {
        let row = try session.execute(Self.outboxBounds, [.int64(beyond)]).only()
        return (try row.int64(0), try row.optionalInt64(1))
    }

    /// Makes the relay's what somebody's outbox holds without a lease.
    /// - Returns: how many rows of the outbox.
    package func open(_ count: Int, beyond: Int64) throws -> Int {
        Int(try session.execute(Self.openOutbox, [.int64(beyond), .int64(Int64(count))]).only().int64(0))
    }

    /// Since when the oldest walk that is due has not come to its end, in UNIX milliseconds.
    package func oldestWalk(leaseSeconds: Double) throws -> Int64? {
        try session.execute(Self.oldestWalk, [.double(leaseSeconds)]).only().optionalTimestampMilliseconds(0)
    }

    /// Takes over notifications of a lane that nobody has a lease on.
    /// - Parameter walked: Those whose targets are still to be found, or those that have their deliveries.
    package func claim(_ count: Int, of lane: Lane, walked: Bool, leaseSeconds: Double) throws -> [PushID] {
        guard count > 0 else { return [] }
        let parameters: [PostgresValue] = [.bool(walked), .text(lane.rawValue), .int64(Int64(count)), .double(leaseSeconds)]
        return try session.execute(Self.claim, parameters).map { row in try row.id(0) }
    }

    package struct Claimed: Sendable {
        package var template: JobTemplate
        package var deliveries: [PushJob.Delivery]
        /// See ``PushJob/earlierAttemptsHeader``.
        package var earlierAttempts = 0
        /// What is not sent any more. It goes the way of all outcomes.
        package var stopped: [OutcomeEvent] = []
    }

    /// Resolves claimed notifications anew: what expired meanwhile, or was made for an owner who left, gets its outcome here.
    /// - Returns: what is left to publish.
    package func resolve(_ ids: [PushID]) throws -> [Claimed] {
        try session.execute(Self.lockDeliveries, [.ids(ids)])
        // From here on nobody else publishes them: what is ended below is counted below.
        try session.execute(Self.lockNotifications, [.ids(ids)])
        try session.execute(Self.endDeliveries, [.ids(ids)])
        let told: [PostgresValue] = [.ids(ids), .textArray(Self.reasons)]
        try session.execute(Self.settle, told)
        let stopped = try stopped(session.execute(Self.selectEnded, told))
        var deliveries: [PushID: [PushJob.Delivery]] = [:]
        for row in try session.execute(Self.selectDeliveries, [.ids(ids)]) {
            deliveries[try row.id(6), default: []].append(try NotificationStore.delivery(row))
        }
        return try JobTemplate.load(ids, in: session).map { template in
            let id = template.notification
            return Claimed(template: template, deliveries: deliveries[id] ?? [], stopped: Self.events(stopped[id] ?? [:], of: template.app))
        }
    }

    /// Of what never left the database.
    private static let reasons = ["cancelled_before_publishing", "expired_before_publishing", "owner_changed"]

    private typealias Stopped = [OutcomeClass: [OutcomeEvent.Delivery]]

    private func stopped(_ rows: PostgresRows) throws -> [PushID: Stopped] {
        var stopped: [PushID: Stopped] = [:]
        for row in rows {
            let notification = try row.id(0)
            guard let outcome = OutcomeClass(rawValue: try row.text(1)) else { throw CorruptRow(table: "deliveries") }
            stopped[notification, default: [:]][outcome, default: []].append(
                OutcomeEvent.Delivery(
                    id: try row.id(2), notification: notification, installation: try row.id(3), attempt: 1, reason: try row.text(4)))
        }
        return stopped
    }

    private static func events(_ stopped: Stopped, of app: AppSlug) -> [OutcomeEvent] {
        let now = UnixTime.milliseconds()
        // A notification that is not walked has no more deliveries than an event holds.
        return stopped.sorted { $0.key.rawValue < $1.key.rawValue }.map { outcome, deliveries in
            OutcomeEvent.stopped(deliveries, as: outcome, of: app, at: now)
        }
    }

    /// Fences that were left over: older than any answer waits.
    package func leftOverFences(limit: Int) throws -> [Fence] {
        try session.execute(Self.leftOverFences, [.int64(Int64(limit))]).map { row in
            guard let app = AppSlug(try row.text(1)) else { throw CorruptRow(table: "apps") }
            return Fence(
                id: try row.int64(0), app: app, installation: try row.id(2), epochsBelow: try row.int64(3),
                at: try row.timestampMilliseconds(4))
        }
    }
}
