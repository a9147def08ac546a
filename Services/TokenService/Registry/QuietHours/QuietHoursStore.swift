package import Postgres
package import TokenServiceApps

/// The quiet hours of an app's users. They are read when deliveries are made, so a change affects later deliveries only.
package struct QuietHoursStore {
    private let session: PostgresSession
    private let app: App

    package init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    package func find(_ user: String) throws -> QuietHours? {
        try session.execute(
            """
            SELECT to_char(begins_at, 'HH24:MI') AS begins_at, to_char(ends_at, 'HH24:MI') AS ends_at
            FROM quiet_hours WHERE app_id = \(app.id) AND owner = \(user)
            """
        ).first.map { row in QuietHours(beginsAt: try row["begins_at"], endsAt: try row["ends_at"]) }
    }

    func set(_ hours: QuietHours, of user: String) throws {
        try session.execute(
            """
            INSERT INTO quiet_hours (app_id, owner, begins_at, ends_at, updated_at)
            VALUES (\(app.id), \(user), \(hours.beginsAt)::text::time, \(hours.endsAt)::text::time, now())
            ON CONFLICT (app_id, owner) DO UPDATE SET
                begins_at = excluded.begins_at, ends_at = excluded.ends_at, updated_at = excluded.updated_at
            """)
    }

    /// - Returns: how many there were.
    @discardableResult
    package func remove(_ user: String) throws -> Int {
        try session.execute("DELETE FROM quiet_hours WHERE app_id = \(app.id) AND owner = \(user)").affected
    }
}
