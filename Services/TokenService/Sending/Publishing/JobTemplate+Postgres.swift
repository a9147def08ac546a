package import Postgres
package import PushModel

extension JobTemplate {
    /// Of these notifications that still exist, in ascending order of id.
    /// - Parameter ids: Each once.
    package static func load(_ ids: [PushID], in session: PostgresSession) throws -> [JobTemplate] {
        try session.execute(
            """
            SELECT n.id, a.slug, n.lane, n.push_type, n.priority, n.collapse_id, n.apns_expiration, n.on_unknown, n.expires_at, n.payload,
                n.topic, n.accepted_at, n.traceparent, n.device_receipts, n.copy_of
            FROM unnest(\(ids)::uuid[]) AS e (id) JOIN notifications n ON n.id = e.id JOIN apps a ON a.id = n.app_id ORDER BY n.id
            """
        ).map { row in try JobTemplate(row) }
    }

    private init(_ row: PostgresRow) throws {
        let priority: Int32 = try row["priority"]
        self.init(
            notification: try row["id"], original: try row["copy_of"], app: try row["slug"], lane: try row["lane"],
            pushType: try row["push_type"], topic: try row["topic"], priority: Int(priority), collapseID: try row["collapse_id"],
            apnsExpiration: try row["apns_expiration"], expiresAt: try row.milliseconds("expires_at"),
            acceptedAt: try row.milliseconds("accepted_at"), onUnknown: try row["on_unknown"],
            payload: try row["payload"], traceparent: try row["traceparent"], namesJob: try row["device_receipts"])
    }
}
