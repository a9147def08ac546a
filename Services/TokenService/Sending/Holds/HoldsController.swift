import HTTPTypes
import Hummingbird
package import Postgres
import PushModel
import StrictJSON
package import TokenServiceApps
import TokenServiceKit

/// `/v1/apps/{app}/holds` and, over every app, `/v1/admin/holds`
package struct HoldsController: Sendable {
    package let pool: PostgresPool
    package let holds: HoldService

    package init(pool: PostgresPool, holds: HoldService) {
        self.pool = pool
        self.holds = holds
    }

    package func bind(to router: some RouteBinder) {
        router.on(.setHold) { call in try await set(call, app: try call.app()) }
        router.on(.listHolds) { call in try await list(call, app: try call.app()) }
        router.on(.readHold) { call in try await read(call, app: try call.app()) }
        router.on(.liftHold) { call in try await lift(call, app: try call.app()) }
        router.on(.setGlobalHold) { call in try await set(call, app: nil) }
        router.on(.listAllHolds) { call in try await list(call, app: nil) }
        router.on(.readAnyHold) { call in try await read(call, app: nil) }
        router.on(.liftAnyHold) { call in try await lift(call, app: nil) }
    }

    private func set(_ call: APICall, app: App?) async throws -> Response {
        let now = UnixTime.milliseconds()
        let request = try await call.body().object { HoldRequest(&$0, app: app?.slug, now: now) }
        let hold = try await holds.set(request, app: app, by: call.caller.keyID)
        let place = app.map { "/v1/apps/\($0.slug)/holds" } ?? "/v1/admin/holds"
        return JSONAnswer.response(.created, Hold.response, hold, headers: [.location: "\(place)/\(hold.id)"])
    }

    private func list(_ call: APICall, app: App?) async throws -> Response {
        let limit = try PageQuery.limit(call)
        let state = try call.choice("state", of: Hold.State.self)
        let identity = ["holds", app.map { "\($0.id)" }, state?.rawValue]
        let after = try PageQuery.position(call) { text throws(PageCursor.Fault) in
            guard let id = PushID(bytes: try PageCursor.decode(text, list: identity)[...]) else { throw .unreadable }
            return id
        }
        let page = try await pool.session { session in
            try HoldStore(session: session, app: app).page(state: state, after: after, limit: limit)
        }
        return JSONAnswer.response(
            .ok, Hold.page,
            PageResponse(elements: page.holds, nextCursor: page.last.map { PageCursor.encode($0.bytes, list: identity) }))
    }

    private func read(_ call: APICall, app: App?) async throws -> Response {
        let id = try call.id("id")
        let hold = try await pool.session { session in try HoldStore(session: session, app: app).find(id) }
        guard let hold else { throw APIError.notFound }
        return JSONAnswer.response(.ok, Hold.response, hold)
    }

    private func lift(_ call: APICall, app: App?) async throws -> Response {
        JSONAnswer.response(.ok, Hold.response, try await holds.lift(try call.id("id"), app: app, by: call.caller.keyID))
    }
}

extension APIRoute {
    package static let setHold = APIRoute(.post, "/v1/apps/{app}/holds", .admin, audit: .holdSet)
    package static let listHolds = APIRoute(.get, "/v1/apps/{app}/holds", .read, .admin)
    package static let readHold = APIRoute(.get, "/v1/apps/{app}/holds/{id}", .read, .admin)
    package static let liftHold = APIRoute(.delete, "/v1/apps/{app}/holds/{id}", .admin, audit: .holdLifted)
    package static let setGlobalHold = APIRoute(.post, "/v1/admin/holds", .admin, audit: .holdSet)
    package static let listAllHolds = APIRoute(.get, "/v1/admin/holds", .admin)
    package static let readAnyHold = APIRoute(.get, "/v1/admin/holds/{id}", .admin)
    package static let liftAnyHold = APIRoute(.delete, "/v1/admin/holds/{id}", .admin, audit: .holdLifted)
}

extension Resource {
    package static let holds = Resource(
        "Holds",
        """
        Stopping what matches, in order to go on later: an app, one of its notifications, a lane. What is held is kept: it waits until the \
        hold is lifted or ends, and expires when it would have. Holds add up: what two of them keep waits for both. Nothing that matches \
        leaves from one second after `fence` is `effective`.
        """,
        [set, list, read, lift, setGlobal, listAll, readAny, liftAny])

    private static let filters =
        Parameter.page + [.query("state", .words(Hold.State.self), "Only those; left out: all that there ever were.")]
    private static let location = Answer.Header.always("Location", .string(), "Where it can be read and lifted.")

    private static let set = Operation(
        .setHold, "setHold", "Hold an app, one of its lanes or one of its notifications", "Two calls set two holds: each has to be lifted.",
        request: .json(HoldRequest.ofApp), answers: [Answer(201, "Set.", .json(Hold.response), headers: [location])],
        problems: [.tooManyHolds])

    private static let list = Operation(
        .listHolds, "listHolds", "An app's holds, and those over every app, the newest first", parameters: filters,
        answers: [Answer(200, "One page.", .json(Hold.page))], problems: ProblemCode.page)

    private static let read = Operation(
        .readHold, "readHold", "One hold of an app, or over every app", answers: [Answer(200, "The hold.", .json(Hold.response))])

    private static let lift = Operation(
        .liftHold, "liftHold", "Lift a hold of an app",
        """
        What waits is sent: in PostgreSQL at once, in the broker within the wait that it is in (seconds where little is held, at most ten \
        minutes). Idempotent; the hold stays to be read. One over every app is lifted where it was set.
        """,
        answers: [Answer(200, "Lifted, or over before.", .json(Hold.response))])

    private static let setGlobal = Operation(
        .setGlobalHold, "setGlobalHold", "Hold a lane of every app, or everything", request: .json(HoldRequest.ofEveryApp),
        answers: [Answer(201, "Set.", .json(Hold.response), headers: [location])], problems: [.tooManyHolds])

    private static let listAll = Operation(
        .listAllHolds, "listAllHolds", "Every hold, the newest first", parameters: filters,
        answers: [Answer(200, "One page.", .json(Hold.page))], problems: ProblemCode.page)

    private static let readAny = Operation(
        .readAnyHold, "readAnyHold", "One hold", answers: [Answer(200, "The hold.", .json(Hold.response))], problems: [.notFound])

    private static let liftAny = Operation(
        .liftAnyHold, "liftAnyHold", "Lift any hold", "As for a hold of an app.",
        answers: [Answer(200, "Lifted, or over before.", .json(Hold.response))], problems: [.notFound])
}
