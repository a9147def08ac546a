import Postgres
import PushModel

extension NotificationRequest {
    /// It says which activity it updates by its user and its attributes type.
    var namesActivityByType: Bool { if case .type = activity?.subject { true } else { false } }

    /// The same request to the only activity of its user and type that is not over.
    /// - Throws: ``APIError`` 409 if there is none, or more than one.
    func namingActivity(of app: App, in session: PostgresSession) throws -> NotificationRequest {
        guard case .user(let user) = target, case .type(let type) = activity?.subject else { return self }
        let ids = try ActivityReading(session: session, app: app).running(of: user, type: type)
        guard ids.count == 1 else { throw APIError.activityNotSingle(ids) }
        var request = self
        request.purpose = .activity(id: ids[0])
        request.activity?.subject = .activity(ids[0])
        return request
    }
}

extension ActivityReading {
    /// The first few ids, in order.
    fileprivate func running(of user: String, type: String) throws -> [String] {
        try session.execute(
            """
            SELECT id FROM activity_records
            WHERE app_id = \(app.id) AND owned_by = activity_owner(\(user), NULL) AND attributes_type = \(type) AND ends_at > now()
            ORDER BY id LIMIT 10
            """
        ).column("id")
    }
}
