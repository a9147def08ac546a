import Postgres

/// The quiet hours of an app's users. They are read where a notification's deliveries are made: a change concerns what is made later.
struct QuietHoursStore {
    private let session: PostgresSession
    private let app: App

    init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    func find(_ user: String) throws -> QuietHours? {
        try session.execute(Self.find, [.int64(app.id), .text(user)]).first.map { row in
            QuietHours(beginsAt: try row.text(0), endsAt: try row.text(1))
        }
    }

    func set(_ hours: QuietHours, of user: String) throws {
        try session.execute(Self.set, [.int64(app.id), .text(user), .text(hours.beginsAt), .text(hours.endsAt)])
    }

    func remove(_ user: String) throws {
        try session.execute(Self.remove, [.int64(app.id), .text(user)])
    }

    private static let find: PostgresStatement = """
        SELECT to_char(begins_at, 'HH24:MI'), to_char(ends_at, 'HH24:MI') FROM quiet_hours WHERE app_id = $1 AND owner = $2
        """
    private static let set: PostgresStatement = """
        INSERT INTO quiet_hours (app_id, owner, begins_at, ends_at, updated_at) VALUES ($1, $2, $3::text::time, $4::text::time, now())
        ON CONFLICT (app_id, owner) DO UPDATE SET
            begins_at = excluded.begins_at, ends_at = excluded.ends_at, updated_at = excluded.updated_at
        """
    private static let remove: PostgresStatement = "DELETE FROM quiet_hours WHERE app_id = $1 AND owner = $2"
}
