import PushModel

extension Resource {
    static let privacy = Resource(
        "Privacy", "What a person may ask for: to be told everything, and to be forgotten.", operations: [erase, export],
        schemas: [
            "Erasure": .request(.required("confirm", user, "The user's name once more.")), "ErasureResult": erasureResult,
            "NoFields": .request(), "UserExport": userExport, "ExportedInstallation": installation, "ExportedHistoryEntry": historyEntry,
            "ExportedNotification": notification,
        ])

    private static let erase = Operation(
        .eraseUser, "eraseUser", "Erase a user",
        """
        Fences first, so that nothing that is queued reaches a device; then quiet hours, installations, history, receipts and \
        idempotency records, and the user's places in lists. Cannot be undone. A call that was cut short is finished by repeating it.
        """,
        request: .json("Erasure"), answers: [Answer(200, "Erased; what this call removed.", .json("ErasureResult"))])

    private static let export = Operation(
        .exportUser, "exportUser", "Everything that is stored about a user",
        "Streamed: an answer that is no whole JSON was cut short. Tokens are shown in full, they are the person's own.",
        request: .json("NoFields", isRequired: false), answers: [Answer(200, "Everything.", .json("UserExport"))])

    private static let erasureResult = JSONSchema.answer(
        .required("app", .slug), .required("user_erased", .boolean), .required("erased_at", .time),
        .required("key_id", .keyID, "The key that asked for it."), .required("fence", .fence),
        .required(
            "erased",
            .answer(
                .required("installations", .count), .required("tokens", .count), .required("history", .count),
                .required("notifications", .count), .required("deliveries", .count), .required("idempotency_records", .count),
                .required("quiet_hours", .count)),
            "Rows that this call removed, by table."))

    private static let userExport = JSONSchema.answer(
        .required("app", .slug), .required("user", user), .required("exported_at", .time),
        .optional("quiet_hours", .reference("QuietHours")),
        .required("installations", .array(.reference("ExportedInstallation"))),
        .required("history", .array(.reference("ExportedHistoryEntry"))),
        .required("notifications", .array(.reference("ExportedNotification"))))

    private static let installation = JSONSchema.answer(
        .required("id", .uuid), .required("owner_epoch", .count), .required("tokens", .array(token)), .required("created_at", .time),
        .required("registered_at", .time), .optional("throttled_until", .time), .optional("locale", .string(64).example("de_DE")),
        .optional("time_zone", .string(64).example("Europe/Berlin")), .optional("app_version", .string(64).example("4.2.0")),
        .optional("os_version", .string(64).example("26.1")), .optional("device_model", .string(64).example("iPhone18,1")),
        .required("tags", .array(.string(64).example("beta"))))

    private static let token = JSONSchema.answer(
        .required("token", .deviceToken), .required("environment", .environment), .required("purpose", .purpose),
        .required("state", .tokenState), .required("registered_at", .time), .optional("retired_at", .time),
        .optional("retired_reason", .retiredReason), .optional("proven_at", .time, "Since when APNs is known to take it."))

    private static let historyEntry = JSONSchema.answer(
        .required("installation", .uuid), .required("at", .time), .required("event", .words(HistoryEntry.Event.self)),
        .optional("owner_epoch", .count), .optional("user", user), .optional("token_hint", .tokenHint),
        .optional("environment", .environment), .optional("purpose", .purpose), .optional("other_installation", .uuid),
        .optional("status", .integer.example(410)), .optional("reason", .string().example("Unregistered")),
        .optional("apns_timestamp", .time), .optional("delivery", .uuid))

    private static let notification = JSONSchema.answer(
        .required("id", .uuid),
        .required(
            "to",
            .answer(
                .optional("user", user), .optional("users", .array(user), "Of a list, this user alone."), .optional("installation", .uuid))),

        .required("state", .notificationState), .required("lane", .words(Lane.self)), .required("push_type", .words(PushType.self)),
        .required("topic", .string().example("com.example.shop")), .optional("collapse_id", .string(64).example("order-4711")),
        .required("accepted_at", .time), .required("expires_at", .time), .optional("completed_at", .time),
        .required("payload", JSONSchema.dictionary(.anything).example(.map(["aps": .map(["alert": "Your order is packed"])]))),
        .required("deliveries", .array(delivery)))

    private static let delivery = JSONSchema.answer(
        .required("id", .uuid), .required("installation", .uuid), .required("environment", .environment),
        .required("state", .deliveryState), .optional("status", .integer.example(200)),
        .optional("reason", .string().example("Unregistered")), .required("attempts", .count), .required("updated_at", .time))
}
