import Hummingbird
import Postgres
import PushModel
import StrictJSON

/// `/v1/apps/{app}/quarantine`
struct QuarantineController: Sendable {
    static let maximumPage = 1000
    static let defaultPage = 100
    /// Installations that one request may name.
    static let maximumNamed = 1000

    let pool: PostgresPool
    let restoring: QuarantineRestore
    let metrics: TokenServiceMetrics

    func bind(to router: APIRouter) {
        router.on(.listQuarantine, list)
        router.on(.restoreQuarantine, restore)
    }

    @Sendable private func list(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let limit = try Self.limit(call.query("limit"))
        let cursor = try Self.cursor(call.query("cursor"))
        let page = try await pool.session { session in
            try QuarantineStore(session: session, app: app.id).page(after: cursor, limit: limit)
        }
        return JSONAnswer.response(.ok) { writer in
            writer.object { object in
                object.field("total", page.total)
                object.array("tokens") { array in
                    for token in page.tokens { Self.write(token, to: &array) }
                }
                if page.tokens.count == limit, let last = page.tokens.last {
                    object.field("next_cursor", String(last.id, radix: 36))
                } else {
                    object.null("next_cursor")
                }
            }
        }
    }

    @Sendable private func restore(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let named = try await call.body().object(allowsEmpty: true) { body in Self.installations(&body) }
        let result = try await restoring.restore(named, app: app)
        metrics.restored(result.restored)
        return JSONAnswer.response(.ok) { writer in
            writer.object { object in
                object.field("restored", result.restored)
                object.field("superseded", result.superseded)
                object.field("remaining", result.remaining)
            }
        }
    }

    /// - Returns: `.some(nil)` where none are named, which means all of them.
    private static func installations(_ body: inout JSONObjectReader) -> [PushID]?? {
        let isNamed = body.has("installations")
        let texts = isNamed ? body.strings("installations", maximumCount: maximumNamed, maximumBytes: 36) : nil
        body.finish()
        guard isNamed else { return .some(nil) }
        guard let texts else { return nil }
        if texts.isEmpty { body.problem("installations", "too_short", "at least one; leave the field out to restore all") }
        let ids = texts.enumerated().compactMap { index, text in
            let id = PushID(text)
            if id == nil { body.problem("installations", step: "/\(index)", "invalid_id", "a UUID") }
            return id
        }
        return ids
    }

    private static func write(_ token: QuarantinedToken, to writer: inout JSONWriter) {
        writer.object { object in
            object.field("installation", token.installation.description)
            object.field("hint", token.hint)
            object.field("environment", token.environment)
            object.field("purpose", token.purpose)
            object.time("retired_at", token.retiredAt)
            object.time("quarantined_at", token.quarantinedAt)
        }
    }

    private static func limit(_ text: String?) throws -> Int {
        guard let text else { return defaultPage }
        guard let limit = Int(text), (1...maximumPage).contains(limit) else {
            throw APIError.invalid("limit", "out_of_range", "must be from 1 to \(maximumPage)")
        }
        return limit
    }

    /// The last token's number of the page before, in 36 digits and letters: nothing that anyone should read.
    private static func cursor(_ text: String?) throws -> Int64 {
        guard let text else { return 0 }
        guard let cursor = Int64(text, radix: 36), cursor > 0 else {
            throw APIError.invalid("cursor", "invalid_cursor", "must be a next_cursor of this list")
        }
        return cursor
    }
}
