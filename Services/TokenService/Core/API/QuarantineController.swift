import Hummingbird
import Postgres
import PushModel
import StrictJSON

/// `/v1/apps/{app}/quarantine`
struct QuarantineController: Sendable {
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
        try call.allowQuery(["limit", "cursor"])
        let app = try call.app()
        let limit = try PageQuery.limit(call)
        let position = try PageQuery.position(call) { text throws(PageCursor.Fault) in try QuarantineList.position(text, app: app) }
        let page = try await pool.session { session in
            try QuarantineStore(session: session, app: app.id).page(after: position ?? 0, limit: limit)
        }
        return JSONAnswer.response(.ok) { writer in
            writer.object { object in
                object.field("total", page.total)
                object.array("tokens") { array in
                    for token in page.tokens { Self.write(token, to: &array) }
                }
                if let last = page.last {
                    object.field("next_cursor", QuarantineList.cursor(after: last, app: app))
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
}
