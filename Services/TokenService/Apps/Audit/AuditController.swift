import HTTPTypes
import Hummingbird
package import Postgres
import PushModel
package import TokenServiceKit

/// `/v1/admin/audit`
package struct AuditController: Sendable {
    package let pool: PostgresPool

    package init(pool: PostgresPool) {
        self.pool = pool
    }

    package func bind(to router: some RouteBinder) { router.on(.readAudit, list) }

    @Sendable private func list(_ call: APICall) async throws -> Response {
        let filter = AuditFilter(
            app: try call.slug("app"), key: try call.words("key", maximumBytes: 16),
            action: try call.choice("action", of: AuditAction.self), since: try call.moment("since"))
        let limit = try PageQuery.limit(call)
        let before = try PageQuery.position(call) { text throws(PageCursor.Fault) in
            try PageCursor.decodeNumber(text, list: filter.identity)
        }
        let page = try await pool.session { session in try AuditStore(session: session).page(of: filter, before: before, limit: limit) }
        return JSONAnswer.response(
            .ok, AuditEntry.page,
            PageResponse(elements: page.entries, nextCursor: page.next.map { PageCursor.encode($0, list: filter.identity) }))
    }
}

extension APICall {
    /// The caller, for the audit trail.
    package var actor: AuditActor { .key(caller.keyID) }

    /// Chooses how an answer shows tokens. If it shows them in full, records that before it returns, so that no such answer is unrecorded.
    /// - Parameter object: What the tokens are of.
    package func tokens<Value>(
        _ shown: TokenDisplay, hints: ResponseSchema<Value>, full: ResponseSchema<Value>, of object: String?, in pool: PostgresPool
    ) async throws -> ResponseSchema<Value> {
        guard shown == .full else { return hints }
        try await record(.tokensRead, of: object, in: pool)
        return full
    }

    /// Records that this call reads what the trail speaks of: before the answer is given.
    package func record(_ action: AuditAction, of object: String?, in pool: PostgresPool) async throws {
        let (actor, app) = (actor, try app().slug)
        try await pool.session { session in try AuditStore(session: session).record(action, by: actor, app: app, object: object) }
    }
}

extension APIRoute {
    package static let readAudit = APIRoute(.get, "/v1/admin/audit", .admin)
}

extension Resource {
    package static let audit = Resource(
        "Audit", "Who used an administrator's rights, and who read tokens or a person's data in full.",
        [
            Operation(
                .readAudit, "readAudit", "The audit trail, newest first, page by page",
                """
                An entry is written in the transaction of the change, or before the answer of a read. Refused requests and changes that \
                change nothing leave none. Entries live as long as the history of installations. A page looks at no more than 5000 \
                entries: filters that few pass give short pages, even empty ones, with a `next_cursor`.
                """,
                parameters: [
                    .query("app", .slug, "Only of this app."),
                    .query("key", .string(16).example("0a1b2c3d4e5f6071"), "Only by the API key of this id."),
                    .query("action", .words(AuditAction.self), "Only this action."),
                    .query("since", .time, "Only at this moment or later."),
                ] + Parameter.page,
                answers: [Answer(200, "One page.", .json(AuditEntry.page))], problems: ProblemCode.page + [.invalidTime])
        ])
}
