import Hummingbird
import Postgres
import PushModel
import StrictJSON

/// `/v1/apps/{app}/installations`, and a user's installations.
struct InstallationsController: Sendable {
    static let maximumPage = 1000
    static let defaultPage = 100

    let pool: PostgresPool

    func bind(to router: APIRouter) {
        router.on(.readInstallation, read)
        router.on(.listUserInstallations, list)
    }

    @Sendable private func read(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let id = try call.id("id")
        let found = try await pool.session { session in try InstallationStore(session: session, app: app).records([id]).first }
        guard let found else { throw APIError.notFound }
        return JSONAnswer.response(.ok) { found.write(to: &$0, app: app.slug) }
    }

    @Sendable private func list(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let user = try call.text("user", maximumBytes: StatedUser.maximumBytes)
        let limit = try Self.limit(call.query("limit"))
        let cursor = try Self.cursor(call.query("cursor"))
        let page = try await pool.session { session in
            try InstallationStore(session: session, app: app).page(ownedBy: user, after: cursor, limit: limit)
        }
        return JSONAnswer.response(.ok) { writer in
            writer.object { object in
                object.array("installations") { array in
                    for record in page { record.write(to: &array, app: app.slug) }
                }
                if page.count == limit, let last = page.last {
                    object.field("next_cursor", last.id.description)
                } else {
                    object.null("next_cursor")
                }
            }
        }
    }

    private static func limit(_ text: String?) throws -> Int {
        guard let text else { return defaultPage }
        guard let limit = Int(text), (1...maximumPage).contains(limit) else {
            throw APIError.invalid("limit", "out_of_range", "must be from 1 to \(maximumPage)")
        }
        return limit
    }

    private static func cursor(_ text: String?) throws -> PushID? {
        guard let text else { return nil }
        guard let cursor = PushID(text) else { throw APIError.invalid("cursor", "invalid_cursor", "must be a next_cursor of this list") }
        return cursor
    }
}
