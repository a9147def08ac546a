import HTTPTypes
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

extension APIRoute {
    package static let listNotifications = APIRoute(.get, "/v1/apps/{app}/notifications", .read)
    package static let listDeliveries = APIRoute(.get, "/v1/apps/{app}/notifications/{id}/deliveries", .read, audit: .tokensRead)
    package static let explainNotification = APIRoute(.get, "/v1/apps/{app}/notifications/{id}/why", .read)
}

extension Resource {
    package static let notificationReading = Resource(
        "Finding notifications", "Lists of notifications, and what became of each copy.",
        [listNotifications, listDeliveries, explain])

    private static let listNotifications = Operation(
        .listNotifications, "listNotifications", "An app's notifications, newest first, page by page",
        """
        A page looks at no more than 5000 notifications: a filter that few pass gives short pages, even empty ones, with a `next_cursor`. \
        A `user`'s are those addressed to them by name, or to a device while they were signed in on it, and those of which a receipt is \
        kept of a delivery to such a device.
        """,
        parameters: [
            .query("state", .notificationState, "Only in this state."), .query("user", .user, "Only this user's."),
            .query("since", .time, "Only accepted at this moment or later."), .query("until", .time, "Only accepted before this moment."),
        ] + Parameter.page,
        answers: [Answer(200, "One page.", .json(NotificationSummary.page))], problems: ProblemCode.page + [.invalidTime])

    private static let listDeliveries = Operation(
        .listDeliveries, "listDeliveries", "What became of a notification, device by device, page by page",
        """
        Every delivery where `receipts` is `all`; those that failed, or were tried more than once, where it is `failures`. One that was \
        not tried yet is shown with the device that has its token now. A page looks at no more than 5000 deliveries.
        """,
        parameters: [
            .query("state", .words(DeliveryList.State.names), "Only in this state."),
            .query("reason", .string(256).example("Unregistered"), "Only with this reason: APNs' word, or ours."),
            .query("installation", .uuid, "Only to this installation."), Parameter.tokens,
        ] + Parameter.page,
        answers: [Answer(200, "One page, in an order that never changes.", .json(DeliveryList.hints))],
        problems: ProblemCode.page + [.invalidID])

    private static let explain = Operation(
        .explainNotification, "explainNotification", "Why a notification reached a user, or did not",
        """
        What happened for that user, in order, from the match to Apple's answer. `unknown`: it was sent and no answer came, so it may \
        have arrived. What was not stored, or is not known any more, is said to be `not_recorded`; what is judged by the registry as it \
        is now says so.
        """,
        parameters: [.query("user", .user, "Whose devices.", isRequired: true)],
        answers: [Answer(200, "A conclusion, one sentence, and every step.", .json(Explanation.response))],
        problems: [.outOfRange])
}
