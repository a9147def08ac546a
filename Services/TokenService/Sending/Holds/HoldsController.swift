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
