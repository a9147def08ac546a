import HTTPTypes
import Hummingbird
package import Logging
import Metrics
package import Observability
package import Postgres
import PushModel
import StrictJSON
package import TokenServiceApps
import TokenServiceKit
import TokenServiceRegistry

/// The rights of a person (GDPR articles 15, 17 and 20): a copy of all data about them, and its erasure.
package struct PrivacyController: Sendable {
    package let pool: PostgresPool
    package let erasure: Erasure
    package let export: UserExport
    package let streams: SharedLimit
    package let metrics: PrivacyMetrics
    package let logger: Logger

    package init(pool: PostgresPool, erasure: Erasure, export: UserExport, streams: SharedLimit, metrics: PrivacyMetrics, logger: Logger) {
        self.pool = pool
        self.erasure = erasure
        self.export = export
        self.streams = streams
        self.metrics = metrics
        self.logger = logger
    }

    package func bind(to router: some RouteBinder) {
        router.on(.eraseUser, erase)
        router.on(.exportUser, exportUser)
    }

    @Sendable private func erase(_ call: APICall) async throws -> Response {
        let user = try call.text("user", maximumBytes: StatedUser.maximumBytes)
        try await call.body().object { Erasure.confirmation(of: user, &$0) }
        let app = try call.app()
        let result = try await erasure.erase(user: user, app: app, by: call.actor)
        metrics.erased()
        // Records the caller and the amount of data; never the user.
        logger.notice(
            "A user was erased",
            metadata: [
                LogKey.app: "\(app.slug.text)", LogKey.keyID: "\(call.caller.keyID)", LogKey.installations: "\(result.installations)",
                LogKey.tokens: "\(result.tokens)", LogKey.history: "\(result.history)",
                LogKey.notifications: "\(result.receipts.notifications)", LogKey.deliveries: "\(result.receipts.deliveries)",
            ])
        return JSONAnswer.response(.ok, Erasure.response, (app.slug, call.caller.keyID, result))
    }

    @Sendable private func exportUser(_ call: APICall) async throws -> Response {
        let user = try call.text("user", maximumBytes: StatedUser.maximumBytes)
        let app = try call.app()
        try await call.body().object(allowsEmpty: true) { body -> Void? in
            body.finish()
            return ()
        }
        let place = try streams.enter(call.caller)
        // The first page is read before the status is sent, so that an unavailable database can still be answered with a status.
        let first = try await export.firstPage(user: user, app: app)
        try await call.record(.userExported, of: AuditEntry.object(user: user, of: app.slug), in: pool)
        return Response(
            status: .ok, headers: [.contentType: "application/json", .cacheControl: "no-store"],
            body: call.stream(holding: place) { writer in
                try await export.write(user: user, app: app, first: first, to: &writer)
                try await writer.finish(nil)
            })
    }
}

extension APIRoute {
    package static let eraseUser = APIRoute(.post, "/v1/apps/{app}/users/{user}/erase", .admin, audit: .userErased)
    package static let exportUser = APIRoute(.post, "/v1/apps/{app}/users/{user}/export", .admin, audit: .userExported)
}

extension Resource {
    package static let privacy = Resource(
        "Privacy", "What a person may ask for: to get everything that is stored, and to be forgotten.", [erase, export])

    private static let erase = Operation(
        .eraseUser, "eraseUser", "Erase a user",
        """
        Fences first, so that nothing that is queued reaches a device; then quiet hours, installations, history, receipts and \
        idempotency records, and the user's places in lists. Cannot be undone. A call that was cut short is finished by repeating it.
        """,
        request: .json(Erasure.request), answers: [Answer(200, "Erased; what this call removed.", .json(Erasure.response))])

    private static let export = Operation(
        .exportUser, "exportUser", "Everything that is stored about a user",
        "Streamed: an answer that is no whole JSON was cut short. Tokens are shown in full, they are the person's own.",
        request: .json(UserExport.request, isRequired: false), answers: [Answer(200, "Everything.", .json(UserExport.schema))])

}

/// Counts erasures.
package struct PrivacyMetrics: Sendable {
    private let erasures: Counter

    package init(_ registry: PrometheusMetrics) {
        erasures = registry.counter("push_token_service_users_erased_total", "Users erased by request, repetitions included.")
    }

    func erased() { erasures.increment() }
}
