import Hummingbird
package import Postgres
import StrictJSON
package import TokenServiceApps
import TokenServiceKit

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
