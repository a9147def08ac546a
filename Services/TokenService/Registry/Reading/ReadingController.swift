import HTTPTypes
import Hummingbird
package import Postgres
package import PushModel
import StrictJSON
package import TokenServiceApps
package import TokenServiceKit

/// Reads the registry: one installation, lists of them, the holder of a token, the history of an installation.
package struct ReadingController: Sendable {
    package let pool: PostgresPool

    package init(pool: PostgresPool) {
        self.pool = pool
    }

    package func bind(to router: some RouteBinder) {
        router.on(.readInstallation, read)
        router.on(.listInstallations, list)
        router.on(.listUserInstallations, listOfUser)
        router.on(.searchToken, search)
        router.on(.readHistory, history)
    }

    @Sendable private func read(_ call: APICall) async throws -> Response {
        let shown = try call.tokenDisplay()
        let app = try call.app()
        let id = try call.id("id")
        let found = try await pool.session { session in try InstallationStore(session: session, app: app).records([id]).first }
        guard let found else { throw APIError.notFound }
        let etag = found.etag
        // Always with whole tokens: the tag is that of the answer without them as well.
        let known = EntityTags(.ifNoneMatch, of: call.request.headers)
        if shown == .hints, known?.nameWeakly(etag) == true { return Response(status: .notModified, headers: [.eTag: etag]) }
        let schema = try await call.tokens(
            shown, hints: InstallationRecord.hints, full: InstallationRecord.full, of: id.description, in: pool)
        return JSONAnswer.response(.ok, schema, OfApp(app: app.slug, value: found), headers: [.eTag: etag])
    }

    // MARK: Lists

    @Sendable private func list(_ call: APICall) async throws -> Response {
        try await page(call, user: nil)
    }

    @Sendable private func listOfUser(_ call: APICall) async throws -> Response {
        try await page(call, user: call.text("user", maximumBytes: StatedUser.maximumBytes))
    }

    private func page(_ call: APICall, user: String?) async throws -> Response {
        let app = try call.app()
        let shown = try call.tokenDisplay()
        let list = InstallationList(user: user, filter: try call.filter())
        let limit = try PageQuery.limit(call)
        let position = try PageQuery.position(call) { text throws(PageCursor.Fault) in try list.position(text, app: app) }
        let page = try await read(list, from: position, limit: limit, app: app)
        let schema = try await call.tokens(
            shown, hints: InstallationRecord.pageHints, full: InstallationRecord.pageFull,
            of: user.map { AuditEntry.object(user: $0, of: app.slug) }, in: pool)
        return JSONAnswer.response(
            .ok, schema,
            PageResponse(
                elements: page.records.map { OfApp(app: app.slug, value: $0) }, nextCursor: page.next.map { list.cursor($0, app: app) }))
    }

    /// A user's list is one statement and needs no transaction around it; everything else needs one view of the registry.
    private func read(
        _ list: InstallationList, from position: InstallationList.Position?, limit: Int, app: App
    ) async throws -> InstallationList.Page {
        let read = { @Sendable (session: PostgresSession) in
            try InstallationStore(session: session, app: app).page(of: list, from: position, limit: limit)
        }
        guard list.user == nil || !list.filter.isEmpty else { return try await pool.session(read) }
        return try await pool.transaction(isolation: .repeatableRead, read)
    }

    // MARK: Tokens

    @Sendable private func search(_ call: APICall) async throws -> Response {
        let shown = try call.tokenDisplay()
        let app = try call.app()
        let (token, environment) = try await call.body().object { body -> (DeviceToken, APNsEnvironment?)? in
            let token = body.token("token")
            let environment = body.optionalChoice("environment", of: APNsEnvironment.self)
            body.finish()
            return token.map { ($0, environment) }
        }
        let found = try await pool.session { session in
            try InstallationStore(session: session, app: app).search(token, environment: environment)
        }
        let schema = try await call.tokens(shown, hints: TokenSearch.hints, full: TokenSearch.full, of: token.hint, in: pool)
        return JSONAnswer.response(.ok, schema, OfApp(app: app.slug, value: found))
    }

    // MARK: History

    @Sendable private func history(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let list = HistoryList(
            installation: try call.id("id"), order: try call.choice("order", of: HistoryList.Order.self) ?? .newestFirst)
        let limit = try PageQuery.limit(call)
        let position = try PageQuery.position(call) { text throws(PageCursor.Fault) in try list.position(text, app: app) }
        let page = try await pool.session { session in
            try InstallationHistory(session: session, app: app).page(of: list, from: position, limit: limit)
        }
        guard let page else { throw APIError.notFound }
        return JSONAnswer.response(.ok, InstallationHistory.response, InstallationHistory.Answer(app: app, list: list, page: page))
    }
}

extension APICall {
    fileprivate func filter() throws -> InstallationFilter {
        InstallationFilter(
            state: try choice("state", of: InstallationFilter.State.self),
            permission: try choice("permission", of: ReportedPermission.self),
            tag: try words("tag", maximumBytes: InstallationTags.maximumWordBytes), seenAfter: try moment("seen_after"),
            seenBefore: try moment("seen_before"))
    }
}

/// An installation's history, read page by page.
package struct HistoryList: Hashable, Sendable {
    package enum Order: String, CaseIterable, Sendable {
        case newestFirst = "desc"
        case oldestFirst = "asc"
    }

    package var installation: PushID
    package var order: Order

    package init(installation: PushID, order: Order = .newestFirst) {
        self.installation = installation
        self.order = order
    }

    /// - Parameter entry: The last one that was shown.
    package func cursor(after entry: Int64, app: App) -> String {
        PageCursor.encode(entry, list: identity(app))
    }

    package func position(_ cursor: String, app: App) throws(PageCursor.Fault) -> Int64 {
        try PageCursor.decodeNumber(cursor, list: identity(app))
    }

    private func identity(_ app: App) -> [String?] { ["history", "\(app.id)", installation.description, order.rawValue] }
}
