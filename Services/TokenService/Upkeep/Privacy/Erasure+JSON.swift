import PushModel
import StrictJSON
import TokenServiceApps
import TokenServiceKit
import TokenServiceRegistry

extension Erasure {
    static let request = JSONSchema.request("Erasure", [.required("confirm", .user, "The user's name once more.")])

    /// - Returns: nil if the body does not name the user.
    static func confirmation(of user: String, _ body: inout JSONObjectReader) -> Void? {
        let confirmed = body.string("confirm", maximumBytes: StatedUser.maximumBytes)
        if let confirmed, !confirmed.utf8.elementsEqual(user.utf8) {
            body.problem("confirm", "mismatch", "must be the user that the path names")
        }
        body.finish()
        return confirmed.map { _ in () }
    }

    static let response = ResponseSchema<(app: AppSlug, keyID: String, result: Result)>.object(
        "ErasureResult",
        [
            .required("app", .slug) { $0.app },
            .required(
                "user_erased", .boolean,
                "Whether this call removed anything. False: nothing was stored under this name, or an earlier call has removed it."
            ) { !$0.result.isEmpty },
            .required("erased_at", .time) { _ in UnixTime.milliseconds() },
            .required("key_id", .text(.keyID), "The key that asked for it.") { $0.keyID },
            .required("fence", .fence) { $0.result.fence },
            .required("erased", counts, "How much this call removed.") { $0.result },
        ])

    private static let counts = ResponseSchema<Result>.object(
        nil,
        [
            .required("installations", .count) { $0.installations },
            .required("tokens", .count) { $0.tokens },
            .required("history", .count) { $0.history },
            .required("notifications", .count) { $0.receipts.notifications },
            .required("deliveries", .count) { $0.receipts.deliveries },
            .required("idempotency_records", .count) { $0.receipts.idempotencyRecords },
            .required("quiet_hours", .count) { $0.quietHours },
            .required("activities", .count) { $0.activities },
            .required("list_entries", .count, "The user's entries in lists of notifications to others as well.") { $0.listEntries },
        ])
}
