import HTTPTypes
import Hummingbird
package import Postgres
package import PushModel
import StrictJSON
package import TokenServiceApps
package import TokenServiceKit

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

extension APIRoute {
    package static let listQuarantine = APIRoute(.get, "/v1/apps/{app}/quarantine", .read, .admin)
    package static let restoreQuarantine = APIRoute(.post, "/v1/apps/{app}/quarantine/restore", .admin, audit: .quarantineRestored)
}

extension Resource {
    package static let quarantine = Resource(
        "Quarantine", "Tokens that were retired as rejected while too many were: kept aside, because the fault may be ours.",
        [list, restore])

    private static let list = Operation(
        .listQuarantine, "listQuarantine", "What is quarantined, page by page", parameters: Parameter.page,
        answers: [Answer(200, "One page, the oldest tokens first.", .json(QuarantinedToken.page))], problems: ProblemCode.cursor)

    private static let restore = Operation(
        .restoreQuarantine, "restoreQuarantine", "Bring quarantined tokens back to life", "Idempotent.",
        request: .json(QuarantineRestore.request, isRequired: false), answers: [Answer(200, "Restored.", .json(QuarantineRestore.response))]
    )
}

/// An app's tokens in quarantine, read page by page in order of their numbers.
package enum QuarantineList {
    /// - Parameter token: The last one that was shown.
    package static func cursor(after token: Int64, app: App) -> String { PageCursor.encode(token, list: identity(app)) }

    package static func position(_ cursor: String, app: App) throws(PageCursor.Fault) -> Int64 {
        try PageCursor.decodeNumber(cursor, list: identity(app))
    }

    private static func identity(_ app: App) -> [String?] { ["quarantine", "\(app.id)"] }
}

/// Brings tokens back out of quarantine in short transactions. Each is complete in itself, so that a call may be broken off and repeated at
/// any moment.
package struct QuarantineRestore: Sendable {
    /// Tokens per transaction: few enough locks that no other transaction waits long.
    private static let maximumBatch = 200
    /// Tokens per call, so that an answer does not take long. A caller that wants more calls again.
    package static let maximumPerCall = 10_000

    private let pool: PostgresPool

    package init(pool: PostgresPool) { self.pool = pool }

    package struct Result: Equatable, Sendable {
        package var restored = 0
        package var superseded = 0
        /// How many of the requested tokens are still in quarantine.
        package var remaining = 0
    }

    /// - Parameter installations: The installations whose tokens alone are restored; nil for the whole app.
    package func restore(_ installations: [PushID]?, app: App, by actor: AuditActor) async throws -> Result {
        var (result, last) = (Result(), Int64.min)
        while result.restored + result.superseded < Self.maximumPerCall {
            let batch = try await pool.registryTransaction { [last] session in
                try QuarantineStore(session: session, app: app).restore(
                    installations, after: last, limit: Self.maximumBatch, by: actor)
            }
            guard let batch else { return result }
            last = batch.last
            result.restored += batch.restored
            result.superseded += batch.takenOut - batch.restored
        }
        result.remaining = try await pool.session { session in try QuarantineStore(session: session, app: app).count(of: installations) }
        return result
    }
}
