import HTTPTypes
import Hummingbird
import Logging
import Postgres
import PushModel
import StrictJSON

/// What a person may ask for (GDPR articles 15, 17 and 20): everything that is known of them, and its end.
struct PrivacyController: Sendable {
    let erasure: Erasure
    let export: UserExport
    let streams: StreamLimit
    let metrics: TokenServiceMetrics
    let logger: Logger

    func bind(to router: APIRouter) {
        router.on(.eraseUser, erase)
        router.on(.exportUser, exportUser)
    }

    @Sendable private func erase(_ call: APICall) async throws -> Response {
        let user = try call.text("user", maximumBytes: StatedUser.maximumBytes)
        _ = try await call.body().object { body -> String? in
            let confirmed = body.string("confirm", maximumBytes: StatedUser.maximumBytes)
            if let confirmed, !confirmed.utf8.elementsEqual(user.utf8) {
                body.problem("confirm", "mismatch", "must be the user that the path names")
            }
            body.finish()
            return confirmed
        }
        let app = try call.app()
        let result = try await erasure.erase(user: user, app: app)
        metrics.erased(result)
        // Who asked, and how much there was; never whose it was.
        logger.notice(
            "A user was erased",
            metadata: [
                LogKey.app: "\(app.slug.text)", LogKey.keyID: "\(call.caller.keyID)", LogKey.installations: "\(result.installations)",
                LogKey.tokens: "\(result.tokens)", LogKey.history: "\(result.history)",
                LogKey.notifications: "\(result.receipts.notifications)", LogKey.deliveries: "\(result.receipts.deliveries)",
            ])
        return JSONAnswer.response(.ok) { writer in
            writer.object { object in
                object.field("app", app.slug.text)
                object.field("user_erased", true)
                object.time("erased_at", UnixTime.milliseconds())
                object.field("key_id", call.caller.keyID)
                object.field("fence", result.fence.rawValue)
                object.object("erased") { counts in
                    counts.field("installations", result.installations)
                    counts.field("tokens", result.tokens)
                    counts.field("history", result.history)
                    counts.field("notifications", result.receipts.notifications)
                    counts.field("deliveries", result.receipts.deliveries)
                    counts.field("idempotency_records", result.receipts.idempotencyRecords)
                    counts.field("quiet_hours", result.quietHours)
                }
            }
        }
    }

    @Sendable private func exportUser(_ call: APICall) async throws -> Response {
        let user = try call.text("user", maximumBytes: StatedUser.maximumBytes)
        let app = try call.app()
        try await call.body().object(allowsEmpty: true) { body -> Void? in
            body.finish()
            return ()
        }
        let place = try streams.enter()
        // Whatever keeps the database from answering is said while there can still be a status.
        let first = try await export.firstPage(user: user, app: app)
        return Response(
            status: .ok, headers: [.contentType: "application/json", .cacheControl: "no-store"],
            body: ResponseBody { writer in
                defer { place.end() }
                try await export.write(user: user, app: app, first: first, to: &writer)
                try await writer.finish(nil)
            })
    }
}
