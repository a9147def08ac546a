import PushModel

extension Resource {
    static let notifications = Resource(
        "Notifications", "Sending, and what became of it.", operations: [send, validate, cancel, read],
        schemas: [
            "NewNotification": newNotification, "Target": target, "Content": content, "Alert": alert, "CriticalSound": criticalSound,
            "Variant": variant, "Validation": validation, "RenderedPayload": renderedPayload, "Audience": audience,
            "AudienceReason": audienceReason, "Receipt": receipt, "Notification": notification, "Delivery": delivery,
            "Attempt": attempt, "Cancellation": cancellation,
        ])

    private static let send = Operation(
        .send, "sendNotification", "Send a notification",
        "202 means that it is durable and will be sent: at least once, unless `on_unknown` is `drop` or `resend_once`.",
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
        problems: [.idempotencyInProgress, .idempotencyKeyReused, .invalidIdempotencyKey, .laneNotAllowed, .backlogFull])

    private static let read = Operation(
        .readNotification, "readNotification", "What became of a notification, delivery by delivery",
        answers: [Answer(200, "Its state, exact counts, and its first 1000 deliveries, all of one moment.", .json("Notification"))],
        problems: [.unknownParameter])

    private static let cancel = Operation(
        .cancelNotification, "cancelNotification", "Stop a notification",
        "Nothing more of it is sent from one second after `fence` is `effective`. What has its outcome keeps it; the rest becomes `cancelled`. Repeating it changes nothing.",
        answers: [Answer(200, "Its state now, and how many deliveries could still be stopped.", .json("Cancellation"))])

    private static let cancellation = JSONSchema.answer(
        .required("id", .uuid), .required("state", .notificationState, "`completed`, `expired` or `no_targets` where it was too late."),
        .required(
            "stoppable", .count,
            "Deliveries without an outcome when it was stopped. What a dispatcher had just sent may still get another one than `cancelled`."
        ),
        .optional("not_expanded", .boolean, "Its audience was not walked to the end: more would have followed."),
        .required("fence", .words(["none", "pending", "effective"]), "Whether the dispatchers' control stream has it."))

    private static let receipt = JSONSchema.answer(
        .required("id", .uuid), .required("app", .slug), .required("state", .notificationState), .required("lane", .words(Lane.self)),
        .required("push_type", .words(PushType.self)),
        .optional("deliveries", .count, "To how many tokens; absent where they are found after the answer."),
        .required("accepted_at", .time), .required("expires_at", .time),
        .required("warnings", .array(OpenAPIDocument.warning), "Legal but doubtful."))

    private static let notification = JSONSchema.answer(
        .required("id", .uuid), .required("app", .slug), .required("state", .notificationState), .required("lane", .words(Lane.self)),
        .required("push_type", .words(PushType.self)), .required("to", .reference("Address")), .required("receipts", .receiptsKept),
        .required("accepted_at", .time), .optional("not_before", .time), .optional("local_time", .localTimeAsked),
        .required("expires_at", .time), .optional("completed_at", .time), .optional("cancelled_at", .time),
        .optional("cancel_reason", .cancelReason), .required("counts", counts, "Exact; the classes add up to the total."),
        .required("reasons", .array(.reference("OutcomeCount")), "The same, told apart by status and reason; the most frequent first."),
        .optional("deliveries_truncated", .boolean, "There are more deliveries than are listed."),
        .required("deliveries", .array(.reference("Delivery")), "At most 1000, pending ones first."))

    private static let counts = JSONSchema(
        .object(
            (["total", "pending"] + OutcomeClass.allCases.map(\.rawValue)).map { .required($0, JSONSchema.count) }, isClosed: false))

    private static let delivery = JSONSchema.answer(
        .required("id", .uuid, "Also the apns-id."), .required("installation", .uuid),
        .optional("token", .deviceToken, "Only where `tokens=full` was asked for, and while it is stored."), .required("hint", .tokenHint),
        .required("environment", .environment), .required("state", .deliveryState),
        .optional("status", .integer.example(200), "APNs' HTTP status."),
        .optional("reason", .outcomeReason.example("Unregistered")),
        .required("attempts", .count), .optional("last_attempt", .reference("Attempt")), .required("updated_at", .time))

    private static let attempt = JSONSchema.answer(
        .required("class", .words(OutcomeClass.self)), .optional("status", .integer.example(429)),
        .optional("reason", .outcomeReason.example("TooManyRequests")), .optional("at", .time), .optional("retry_at", .time))
}

extension JSONSchema {
    static let notificationState = JSONSchema.words([
        "accepted", "scheduled", "expanding", "sending", "completed", "cancelled", "expired", "no_targets",
    ])
    static let deliveryState = JSONSchema.words(["pending"] + OutcomeClass.allCases.map(\.rawValue))
    static let outcomeReason = JSONSchema.string()
        .described("APNs' word, or ours in `snake_case` where it was not asked or did not answer.")
    static let localTimeAsked = JSONSchema.string().example("2026-11-22T09:00").described("By the clock where each device is.")
    static let cancelReason = JSONSchema.words(["cancelled", "superseded"])
}
