package import Postgres
package import PushModel

/// The SQL that accepts notifications. It takes a list, so that requests which arrive together may share one commit.
package struct NotificationStore {
    private let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    package struct Item: Sendable {
        package var notification: Notification
        package var app: App
        package var idempotency: IdempotencyKey?
        /// How long this process alone may publish it; zero where it cannot publish now.
        package var leaseSeconds: Double
    }

    package enum Verdict: Equatable, Sendable {
        /// Written with its deliveries; to be published.
        case accepted([PushJob.Delivery])
        /// The same request was accepted before.
        case replay(NotificationReceipt)
        case mismatch
    }

    /// In the order of the items.
    package func insert(_ items: [Item]) throws -> [Verdict] {
        try items.map { item in
            if let idempotency = item.idempotency, let earlier = try claim(idempotency, for: item) { return earlier }
            return .accepted(try insert(item))
        }
    }

    /// Takes the key for this notification, or finds what it was used for. Whoever comes second waits here for the first one's commit.
    private func claim(_ idempotency: IdempotencyKey, for item: Item) throws -> Verdict? {
        let scope: [PostgresValue] = [.int64(item.app.id), .text(idempotency.caller), .text(idempotency.key)]
        let claimed = try session.execute(
            Self.claimKey, scope + [.bytes(idempotency.fingerprint), .id(item.notification.id)])
        if claimed.affected == 1 { return nil }
        let row = try session.execute(Self.selectKey, scope).only()
        guard try row.bytes(0) == idempotency.fingerprint else { return .mismatch }
        return .replay(try receipt(row, app: item.app))
    }

    private func receipt(_ row: PostgresRow, app: App) throws -> NotificationReceipt {
        guard let lane = Lane(rawValue: try row.text(2)), let type = PushType(rawValue: try row.text(3)) else {
            throw CorruptRow(table: "notifications")
        }
        return NotificationReceipt(
            id: try row.id(1), app: app.slug, lane: lane, pushType: type, deliveries: Int(try row.int32(4)),
            acceptedAt: try row.timestampMilliseconds(5), expiresAt: try row.timestampMilliseconds(6))
    }

    private func insert(_ item: Item) throws -> [PushJob.Delivery] {
        let notification = item.notification
        let request = notification.request
        var user: String?
        var installation: PushID?
        switch request.target {
        case .user(let name): user = name
        case .installation(let id): installation = id
        default: throw CorruptRow(table: "notifications")
        }
        let rows = try session.execute(
            Self.insert,
            [
                .id(notification.id), .int64(item.app.id), .optionalText(user), .optionalID(installation), .text(request.lane.rawValue),
                .text(request.pushType.rawValue), .text(notification.topic), .int32(Int32(request.priority)),
                .optionalText(request.collapseID), .int64(request.apnsExpiration), .text(request.onUnknown.rawValue),
                .bytes(request.content.payload), .text(notification.traceparent), .timestamp(milliseconds: notification.acceptedAt),
                .timestamp(milliseconds: request.expiresAt), .text(request.pushType.purpose.rawValue), .double(item.leaseSeconds),
                .bool(item.app.environments.count > 1),
            ])
        return try rows.map { row in try Self.delivery(row) }
    }

    /// Columns: delivery id, token, environment, installation, owner epoch, whether the other environment may be tried.
    package static func delivery(_ row: PostgresRow) throws -> PushJob.Delivery {
        guard let token = DeviceToken(bytes: try row.bytes(1)), let environment = APNsEnvironment(rawValue: try row.text(2)) else {
            throw CorruptRow(table: "tokens")
        }
        return PushJob.Delivery(
            id: try row.id(0), token: token, environment: environment, installation: try row.id(3), ownerEpoch: try row.int64(4),
            environmentTrial: try row.bool(5) ? .allowed : .none)
    }
}

extension NotificationStore {
    private static let claimKey: PostgresStatement = """
        INSERT INTO idempotency_records AS r (app_id, api_key_id, key, fingerprint, notification, expires_at)
        VALUES ($1, $2, $3, $4, $5, now() + interval '24 hours')
        ON CONFLICT (app_id, api_key_id, key) DO UPDATE SET
            fingerprint = excluded.fingerprint, notification = excluded.notification, expires_at = excluded.expires_at
        WHERE r.expires_at <= now()
        """
    private static let selectKey: PostgresStatement = """
        SELECT r.fingerprint, n.id, n.lane, n.push_type, n.total, n.accepted_at, n.expires_at
        FROM idempotency_records r JOIN notifications n ON n.id = r.notification
        WHERE r.app_id = $1 AND r.api_key_id = $2 AND r.key = $3
        """
    /// A target's tokens, their deliveries and the notification in one statement, which is one view of the registry.
    private static let insert: PostgresStatement = """
        WITH targets AS (
            SELECT t.id, t.token, t.environment, i.id AS installation, i.owner_epoch, t.proven_at IS NULL AS unproven
            FROM installations i JOIN tokens t ON t.app_id = i.app_id AND t.installation = i.id
            WHERE i.app_id = $2 AND i.owner = $3::text AND t.purpose = $16 AND t.state = 'active'
            UNION ALL
            SELECT t.id, t.token, t.environment, i.id, i.owner_epoch, t.proven_at IS NULL
            FROM installations i JOIN tokens t ON t.app_id = i.app_id AND t.installation = i.id
            WHERE i.app_id = $2 AND i.id = $4::uuid AND t.purpose = $16 AND t.state = 'active'
        ), counted AS (
            SELECT count(*)::int AS total FROM targets
        ), made AS (
            INSERT INTO notifications (id, app_id, target_user, target_installation, lane, push_type, topic, priority, collapse_id,
                apns_expiration, on_unknown, payload, traceparent, accepted_at, expires_at,
                state, total, pending, lease_until, published_at, completed_at)
            SELECT $1, $2, $3, $4, $5, $6, $7, $8::int::smallint, $9, $10, $11, $12, $13, $14, $15,
                CASE total WHEN 0 THEN 'no_targets' ELSE 'accepted' END, total, total, now() + make_interval(secs => $17),
                CASE total WHEN 0 THEN $14 END, CASE total WHEN 0 THEN $14 END
            FROM counted
        ), written AS (
            INSERT INTO deliveries (id, notification, token_id, installation, owner_epoch, environment, unproven, updated_at)
            SELECT delivery_id($1, id), $1, id, installation, owner_epoch, environment, unproven, $14 FROM targets
        )
        SELECT delivery_id($1, id), token, environment, installation, owner_epoch, unproven AND $18 FROM targets
        """
}
