import HTTPTypes
import Hummingbird
package import Logging
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
