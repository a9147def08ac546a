import Hummingbird
package import Postgres
import PushModel
import StrictJSON
package import TokenServiceApps
import TokenServiceKit

/// `/v1/apps/{app}/quarantine`
package struct QuarantineController: Sendable {
    package let pool: PostgresPool
    package let restoring: QuarantineRestore
    package let metrics: RegistryMetrics

    package init(pool: PostgresPool, restoring: QuarantineRestore, metrics: RegistryMetrics) {
        self.pool = pool
        self.restoring = restoring
        self.metrics = metrics
    }

    package func bind(to router: some RouteBinder) {
        router.on(.listQuarantine, list)
        router.on(.restoreQuarantine, restore)
    }

    @Sendable private func list(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let limit = try PageQuery.limit(call)
        let position = try PageQuery.position(call) { text throws(PageCursor.Fault) in try QuarantineList.position(text, app: app) }
        let page = try await pool.session { session in
            try QuarantineStore(session: session, app: app).page(after: position ?? 0, limit: limit)
        }
        return JSONAnswer.response(.ok, QuarantinedToken.page, (page, page.last.map { QuarantineList.cursor(after: $0, app: app) }))
    }

    @Sendable private func restore(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let named = try await call.body().object(allowsEmpty: true) { QuarantineRestore.installations(&$0) }
        let result = try await restoring.restore(named, app: app, by: call.actor)
        metrics.restored(result.restored)
        return JSONAnswer.response(.ok, QuarantineRestore.response, result)
    }
}
