import Hummingbird
package import Postgres
import StrictJSON
package import TokenServiceApps
package import TokenServiceKit

/// `/v1/apps/{app}/users/{user}/quiet-hours`
package struct QuietHoursController: Sendable {
    package let pool: PostgresPool

    package init(pool: PostgresPool) {
        self.pool = pool
    }

    package func bind(to router: some RouteBinder) {
        router.on(.setQuietHours, set)
        router.on(.readQuietHours, read)
        router.on(.removeQuietHours, remove)
    }

    @Sendable private func set(_ call: APICall) async throws -> Response {
        let (app, user) = try Self.place(call)
        let hours = try await call.body().object { body in QuietHours(&body) }
        try await pool.session { session in try QuietHoursStore(session: session, app: app).set(hours, of: user) }
        return JSONAnswer.response(.ok, QuietHours.response, hours)
    }

    @Sendable private func read(_ call: APICall) async throws -> Response {
        let (app, user) = try Self.place(call)
        let hours = try await pool.session { session in try QuietHoursStore(session: session, app: app).find(user) }
        guard let hours else { throw APIError.notFound }
        return JSONAnswer.response(.ok, QuietHours.response, hours)
    }

    @Sendable private func remove(_ call: APICall) async throws -> Response {
        let (app, user) = try Self.place(call)
        try await pool.session { session in try QuietHoursStore(session: session, app: app).remove(user) }
        return JSONAnswer.noContent
    }

    private static func place(_ call: APICall) throws -> (app: App, user: String) {
        (try call.app(), try call.text("user", maximumBytes: StatedUser.maximumBytes))
    }
}

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

/// The time in which a user does not want pushes: from one time of day to another, by the clock of each device; over midnight if the end
/// comes first.
package struct QuietHours: Equatable, Sendable {
    /// `HH:MM`, from `00:00` to `23:59`.
    package let beginsAt: String
    package let endsAt: String

    package init(beginsAt: String, endsAt: String) {
        self.beginsAt = beginsAt
        self.endsAt = endsAt
    }

    /// Every fault goes to `body.problems`.
    init?(_ body: inout JSONObjectReader) {
        let (begin, end) = (body.timeOfDay("begins_at"), body.timeOfDay("ends_at"))
        if let begin, begin == end { body.problem("ends_at", "conflict", "must differ from begins_at") }
        body.finish()
        guard body.problems.isEmpty, let begin, let end else { return nil }
        self.init(beginsAt: begin, endsAt: end)
    }

    static let request = JSONSchema.request(
        "NewQuietHours",
        [
            .required("begins_at", timeOfDay, "From then on nothing is sent."),
            .required("ends_at", timeOfDay, "Then it is; another time than `begins_at`, on the next day where it is the earlier one."),
        ])
    package static let response = ResponseSchema<QuietHours>.object(
        "QuietHours",
        [.required("begins_at", .text(timeOfDay)) { $0.beginsAt }, .required("ends_at", .text(timeOfDay)) { $0.endsAt }])
    private static let timeOfDay = JSONSchema.string(pattern: "^([01][0-9]|2[0-3]):[0-5][0-9]$").example("22:00")
}

extension JSONObjectReader {
    fileprivate mutating func timeOfDay(_ key: String) -> String? {
        guard let text = string(key, maximumBytes: 16) else { return nil }
        let digits = Array(text.utf8)
        func number(_ first: Int) -> UInt8? {
            let (tens, ones) = (digits[first] &- 48, digits[first + 1] &- 48)
            return tens < 10 && ones < 10 ? tens * 10 + ones : nil
        }
        guard digits.count == 5, digits[2] == UInt8(ascii: ":"), let hour = number(0), let minute = number(3), hour < 24, minute < 60 else {
            problem(key, "invalid_time", "a time of day as HH:MM, 00:00 to 23:59")
            return nil
        }
        return text
    }
}
