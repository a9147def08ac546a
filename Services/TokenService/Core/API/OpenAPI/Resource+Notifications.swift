import PushModel

extension Resource {
    static let notifications = Resource(
        "Notifications", "Sending, and what became of it.", operations: [send, read],
        schemas: [
            "NewNotification": newNotification, "Receipt": receipt, "Notification": notification, "Delivery": delivery,
            "Attempt": attempt,
        ])

    private static let send = Operation(
        .send, "sendNotification", "Send a notification",
        "202 means that it is durable and will be sent: at least once, unless `on_unknown` is `drop`.",
        parameters: [
            .header(
                "Idempotency-Key", .string(pattern: "^[ -~]{1,255}$").example("order-4711-packed"),
                "The same key with the same body answers the same again, for 24 hours per app and API key."),
            .header("traceparent", .string(), "W3C trace context; travels with the notification."),
        ],
        request: .json("NewNotification"),
        answers: [
            Answer(
                202, "Accepted.", .json("Receipt"),
                headers: [
                    .always("Location", .string(), "Where its state can be read."),
                    .sometimes("Idempotency-Replay", .words(["true"]), "The key was used before: this is the first answer again."),
                ])
        ],
        problems: [.idempotencyKeyReused, .invalidIdempotencyKey, .backlogFull])

    private static let read = Operation(
        .readNotification, "readNotification", "What became of a notification, delivery by delivery",
        answers: [Answer(200, "Its state, exact counts, and its first 1000 deliveries.", .json("Notification"))])

    private static let target = JSONSchema.oneOf(
        .request(.required("user", user)), .request(.required("installation", .uuid)))

    private static let newNotification = JSONSchema.request(
        .required("to", target),
        .required(
            "payload", JSONSchema.dictionary(.anything).example(.map(["aps": .map(["alert": "Your order is packed"])])),
            "The APNs body, passed on byte for byte; at most 4096 bytes, voip 5120."),
        .omissible("push_type", .words(PushType.self).standard("alert")),
        .omissible("priority", JSONSchema(.numbers([10, 5, 1])), "Which ones are allowed depends on the push type."),
        .omissible("collapse_id", .string(64).example("order-4711"), "A later one of the same id replaces this one. At most 64 bytes."),
        .omissible("expires_at", .time, "When it is too late; at most 72 hours ahead. Not together with ttl_seconds."),
        .omissible("ttl_seconds", .integer(1...259_200).standard(86_400), "The same, counted from now."),
        .omissible(
            "apns_expiration", .count, "How long APNs may store it, in UNIX seconds; 0 for one try. The expiry where it is left out."),
        .omissible("lane", .words(Lane.self).standard("now"), "One lane never waits behind another."),
        .omissible("on_unknown", .words(PushJob.OnUnknown.self).standard("resend"), "What to do when APNs' answer got lost.")
    ).example(
        .map([
            "to": .map(["user": "ada"]), "payload": .map(["aps": .map(["alert": "Your order is packed"])]),
            "collapse_id": "order-4711", "ttl_seconds": 3600,
        ]))

    private static let receipt = JSONSchema.answer(
        .required("id", .uuid), .required("app", .slug), .required("state", .notificationState), .required("lane", .words(Lane.self)),
        .required("push_type", .words(PushType.self)), .required("deliveries", .count, "To how many tokens."),
        .required("accepted_at", .time), .required("expires_at", .time))

    private static let notification = JSONSchema.answer(
        .required("id", .uuid), .required("app", .slug), .required("state", .notificationState), .required("lane", .words(Lane.self)),
        .required("push_type", .words(PushType.self)), .required("accepted_at", .time), .required("expires_at", .time),
        .optional("completed_at", .time), .required("counts", counts, "Exact; the classes add up to the total."),
        .optional("deliveries_truncated", .boolean, "There are more deliveries than are listed."),
        .required("deliveries", .array(.reference("Delivery")), "At most 1000, pending ones first."))

    private static let counts = JSONSchema(
        .object(
            (["total", "pending"] + OutcomeClass.allCases.map(\.rawValue)).map { .required($0, JSONSchema.count) }, isClosed: false))

    private static let delivery = JSONSchema.answer(
        .required("id", .uuid, "Also the apns-id."), .required("installation", .uuid), .required("hint", .tokenHint),
        .required("environment", .environment), .required("state", .deliveryState),
        .optional("status", .integer.example(200), "APNs' HTTP status."),
        .optional("reason", .string().example("Unregistered"), "APNs' word."),
        .required("attempts", .count), .optional("last_attempt", .reference("Attempt")), .required("updated_at", .time))

    private static let attempt = JSONSchema.answer(
        .required("class", .words(OutcomeClass.self)), .optional("status", .integer.example(429)),
        .optional("reason", .string().example("TooManyRequests")), .optional("at", .time), .optional("retry_at", .time))
}

extension JSONSchema {
    static let notificationState = JSONSchema.words([
        "accepted", "scheduled", "expanding", "sending", "completed", "cancelled", "expired", "no_targets",
    ])
    static let deliveryState = JSONSchema.words(["pending"] + OutcomeClass.allCases.map(\.rawValue))
}
