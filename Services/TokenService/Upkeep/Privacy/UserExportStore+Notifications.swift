import Postgres
import PushModel
import StrictJSON
import TokenServiceApps
import TokenServiceKit
import TokenServiceRegistry
import TokenServiceSending

/// Notifications and their deliveries as JSON objects.
extension UserExportStore {
    /// A notification without its deliveries, which are pages of their own.
    struct Sent {
        let id: PushID
        let user: String?
        /// The user in question alone, of a list of users.
        let users: [String]?
        let installation: PushID?
        let state: String
        let lane: String
        let pushType: String
        let topic: String
        let collapseID: String?
        /// Checked when it was accepted, and kept as it came.
        let payload: [UInt8]
        let acceptedAt: Int64
        let expiresAt: Int64
        let completedAt: Int64?

        /// - Parameters:
        ///   - row: Of `notifications`.
        ///   - listed: The one of a list of users that is shown.
        init(_ row: PostgresRow, listed: String?) throws {
            id = try row["id"]
            user = try row["target_user"]
            installation = try row["target_installation"]
            state = try row["state"]
            lane = try row["lane"]
            pushType = try row["push_type"]
            topic = try row["topic"]
            collapseID = try row["collapse_id"]
            payload = try row["payload"]
            acceptedAt = try row.milliseconds("accepted_at")
            expiresAt = try row.milliseconds("expires_at")
            completedAt = try row.milliseconds("completed_at")
            users = listed.map { [$0] }
        }
    }

    static let notification = ResponseSchema.object(nil, notificationFields)

    static let notificationSchema = JSONSchema.named(
        "ExportedNotification",
        .answer(notificationFields.flatMap(\.described) + [.required("deliveries", .array(delivery.schema))]))

    private static let notificationFields: [ResponseSchema<Sent>.Field] = [
        .required("id", .uuid) { $0.id },
        .required("to", address) { $0 },
        .required("state", .text(.notificationState)) { $0.state },
        .required("lane", .text(.words(Lane.self))) { $0.lane },
        .required("push_type", .text(.words(PushType.self))) { $0.pushType },
        .required("topic", .text(.string().example("com.example.shop"))) { $0.topic },
        .optional("collapse_id", .text(.string(64).example("order-4711"))) { $0.collapseID },
        .required("accepted_at", .time) { $0.acceptedAt },
        .required("expires_at", .time) { $0.expiresAt },
        .optional("completed_at", .time) { $0.completedAt },
        .required("payload", .raw(.dictionary(.anything).example(.map(["aps": .map(["alert": "Your order is packed"])])))) { $0.payload },
    ]

    private static let address = ResponseSchema<Sent>.object(
        nil,
        [
            .optional("user", .text(.user)) { $0.user },
            .optional("users", .array(.text(.user)), "Of a list, this user alone.") { $0.users },
            .optional("installation", .uuid) { $0.installation },
        ])

    /// The schema of a delivery without its token: the installations' are in the document.
    static let delivery = ResponseSchema<NotificationStatus.Delivery>.object(
        nil,
        [
            .required("id", .uuid) { $0.id },
            .required("installation", .uuid) { $0.installation },
            .required("environment", .text(.environment)) { $0.environment },
            .required("state", .text(.words(DeliveryList.State.names))) { $0.outcome ?? "pending" },
            .optional("status", .integer(.integer.example(200))) { $0.status },
            .optional("reason", .text(.string().example("Unregistered"))) { $0.reason },
            .required("attempts", .count) { $0.attempts },
            .optional("shown_at", .time) { $0.shownAt },
            .optional("opened_at", .time) { $0.openedAt },
            .optional("dismissed_at", .time) { $0.dismissedAt },
            .required("updated_at", .time) { $0.updatedAt },
        ])
}
