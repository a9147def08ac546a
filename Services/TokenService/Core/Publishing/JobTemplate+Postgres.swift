package import Postgres
package import PushModel

extension JobTemplate {
    /// Of these notifications that still exist, in ascending order of id.
    package static func load(_ ids: [PushID], in session: PostgresSession) throws -> [JobTemplate] {
        try session.execute(select, [.ids(ids)]).map { row in try JobTemplate(row) }
    }

    /// Columns: those of the statement below.
    private init(_ row: PostgresRow) throws {
        guard let app = AppSlug(try row.text(1)), let lane = Lane(rawValue: try row.text(2)),
            let type = PushType(rawValue: try row.text(3)), let onUnknown = PushJob.OnUnknown(rawValue: try row.text(7))
        else { throw CorruptRow(table: "notifications") }
        self.init(
            notification: try row.id(0), app: app, lane: lane, pushType: type, topic: try row.text(10), priority: Int(try row.int32(4)),
            collapseID: try row.optionalText(5), apnsExpiration: try row.int64(6), expiresAt: try row.timestampMilliseconds(8),
            acceptedAt: try row.timestampMilliseconds(11), onUnknown: onUnknown, payload: try row.bytes(9), traceparent: try row.text(12))
    }

    private static let select: PostgresStatement = """
        SELECT n.id, a.slug, n.lane, n.push_type, n.priority, n.collapse_id, n.apns_expiration, n.on_unknown, n.expires_at, n.payload,
            n.topic, n.accepted_at, n.traceparent
        FROM notifications n JOIN apps a ON a.id = n.app_id WHERE n.id = ANY ($1::uuid[]) ORDER BY n.id
        """
}
