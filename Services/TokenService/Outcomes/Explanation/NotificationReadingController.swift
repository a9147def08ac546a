import Hummingbird
package import Postgres
import PushModel
import StrictJSON
package import TokenServiceApps
import TokenServiceKit
import TokenServiceRegistry
import TokenServiceSending

/// Finds notifications, and the outcome of each delivery.
package struct NotificationReadingController: Sendable {
    package let pool: PostgresPool

    package init(pool: PostgresPool) {
        self.pool = pool
    }

    package func bind(to router: some RouteBinder) {
        router.on(.listNotifications, list)
        router.on(.listDeliveries, deliveries)
        router.on(.explainNotification, explain)
    }

    @Sendable private func list(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let list = NotificationList(
            state: try call.choice("state", of: NotificationState.self),
            user: try call.words("user", maximumBytes: StatedUser.maximumBytes),
            since: try call.moment("since"), until: try call.moment("until"))
        let limit = try PageQuery.limit(call)
        let position = try PageQuery.position(call) { text throws(PageCursor.Fault) in try list.position(text, app: app) }
        let page = try await pool.transaction(isolation: .repeatableRead) { session in
            try NotificationReading(session: session, app: app).page(of: list, from: position, limit: limit)
        }
        return JSONAnswer.response(
            .ok, NotificationSummary.page,
            PageResponse(
                elements: page.notifications.map { OfApp(app: app.slug, value: $0) },
                nextCursor: page.next.map { list.cursor($0, app: app) }))
    }

    @Sendable private func deliveries(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let shown = try call.tokenDisplay()
        let list = DeliveryList(
            notification: try call.id("id"), state: try state(call), reason: try call.words("reason", maximumBytes: 256),
            installation: try installation(call))
        let limit = try PageQuery.limit(call)
        let position = try PageQuery.position(call) { text throws(PageCursor.Fault) in try list.position(text, app: app) }
        let page = try await pool.transaction(isolation: .repeatableRead) { session in
            try DeliveryReading(session: session, app: app).page(of: list, from: position, limit: limit)
        }
        guard let page else { throw APIError.notFound }
        let schema = try await call.tokens(
            shown, hints: DeliveryList.hints, full: DeliveryList.full, of: list.notification.description, in: pool)
        return JSONAnswer.response(.ok, schema, (page, page.next.map { list.cursor(after: $0, app: app) }))
    }

    private func state(_ call: APICall) throws -> DeliveryList.State? {
        guard let text = try call.query("state") else { return nil }
        guard let state = DeliveryList.State(text) else {
            throw APIError.invalid("state", .unsupportedValue, "must be one of \(DeliveryList.State.names.joined(separator: ", "))")
        }
        return state
    }

    private func installation(_ call: APICall) throws -> PushID? {
        guard let text = try call.query("installation") else { return nil }
        guard let id = PushID(text) else { throw APIError.invalid("installation", .invalidID, "must be a UUID") }
        return id
    }

    @Sendable private func explain(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let id = try call.id("id")
        guard let user = try call.words("user", maximumBytes: StatedUser.maximumBytes) else {
            throw APIError.invalid("user", .outOfRange, "must name whose devices are meant")
        }
        let facts = try await pool.transaction(isolation: .repeatableRead) { session in
            try ExplanationStore(session: session, app: app).facts(of: id, user: user)
        }
        guard let facts else { throw APIError.notFound }
        let explanation = Explanation(facts, now: UnixTime.milliseconds())
        return JSONAnswer.response(.ok, Explanation.response, OfApp(app: app.slug, value: explanation))
    }
}
