package import Postgres
package import PushModel

/// The SQL of the two outboxes: notifications without `published_at`, and fences without it.
package struct OutboxStore {
    private let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    // MARK: Settling

    package func markPublished(_ ids: [PushID]) throws {
        guard !ids.isEmpty else { return }
        try session.execute(Self.markPublished, [.ids(ids)])
    }

    /// Lets the relay have what could not be published, a moment later.
    package func release(_ ids: [PushID]) throws {
        guard !ids.isEmpty else { return }
        try session.execute(Self.release, [.ids(ids)])
    }

    package func markPublished(fences: [Int64]) throws {
        guard !fences.isEmpty else { return }
        try session.execute(Self.markFencesPublished, [.int64Array(fences)])
    }

    package func renew(_ ids: [PushID], seconds: Double) throws {
        try session.execute(Self.renew, [.ids(ids), .double(seconds)])
    }

    // MARK: Taking over

    /// How many wait; counted no further than `limit`.
    package func backlog(limit: Int) throws -> Int {
        Int(try session.execute(Self.backlog, [.int64(Int64(limit))]).only().int64(0))
    }

    /// Takes over notifications that nobody has a lease on, the urgent lanes first.
    package func claim(_ count: Int, leaseSeconds: Double) throws -> [PushID] {
        try session.execute(Self.claim, [.int64(Int64(count)), .double(leaseSeconds)]).map { row in try row.id(0) }
    }

    package struct Claimed: Sendable {
        package var notification: Notification
        package var deliveries: [PushJob.Delivery]
    }

    /// Resolves claimed notifications anew: what expired meanwhile, or was made for an owner who left, gets its outcome here.
    /// - Returns: what is left to publish.
    package func resolve(_ ids: [PushID]) throws -> [Claimed] {
        try session.execute(Self.lockDeliveries, [.ids(ids)])
        try session.execute(Self.endDeliveries, [.ids(ids)])
        try session.execute(Self.settle, [.ids(ids)])
        var deliveries: [PushID: [PushJob.Delivery]] = [:]
        for row in try session.execute(Self.selectDeliveries, [.ids(ids)]) {
            deliveries[try row.id(6), default: []].append(try NotificationStore.delivery(row))
        }
        return try session.execute(Self.selectNotifications, [.ids(ids)]).map { row in
            let notification = try Self.notification(row)
            return Claimed(notification: notification, deliveries: deliveries[notification.id] ?? [])
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

    private static func notification(_ row: PostgresRow) throws -> Notification {
        guard let app = AppSlug(try row.text(1)), let lane = Lane(rawValue: try row.text(4)),
            let type = PushType(rawValue: try row.text(5)), let onUnknown = PushJob.OnUnknown(rawValue: try row.text(9))
        else { throw CorruptRow(table: "notifications") }
        let target: NotificationRequest.Target
        if let user = try row.optionalText(2) {
            target = .user(user)
        } else {
            target = .installation(try row.id(3))
        }
        let request = NotificationRequest(
            target: target, pushType: type, priority: Int(try row.int32(6)), collapseID: try row.optionalText(7),
            apnsExpiration: try row.int64(8), expiresAt: try row.timestampMilliseconds(10), lane: lane, onUnknown: onUnknown,
            content: NotificationContent(payload: try row.bytes(11)))
        return Notification(
            id: try row.id(0), app: app, topic: try row.text(12), request: request, acceptedAt: try row.timestampMilliseconds(13),
            traceparent: try row.text(14))
    }
}
