import PushModel

extension Resource {
    static let notificationReading = Resource(
        "Finding notifications", "Lists of notifications, and what became of each copy.",
        operations: [listNotifications, listDeliveries, explain],
        schemas: [
            "Notifications": notificationPage, "NotificationSummary": notificationSummary, "Address": address, "OutcomeCount": outcomeCount,
            "Deliveries": deliveryPage, "Explanation": explanation, "ExplanationStep": explanationStep,
            "ExplanationDetail": explanationDetail,
        ])

    private static let listNotifications = Operation(
        .listNotifications, "listNotifications", "An app's notifications, newest first, page by page",
        """
        A page looks at no more than 5000 notifications: a filter that few pass gives short pages, even empty ones, with a `next_cursor`. \
        A `user`'s are those addressed to them by name, and those of which a receipt is kept of a delivery to a device while they were \
        signed in on it.
        """,
        parameters: [
            .query("state", .notificationState, "Only in this state."), .query("user", user, "Only this user's."),
            .query("since", .time, "Only accepted at this moment or later."), .query("until", .time, "Only accepted before this moment."),
        ] + Parameter.page,
        answers: [Answer(200, "One page.", .json("Notifications"))], problems: ProblemCode.page + [.invalidTime])

    private static let listDeliveries = Operation(
        .listDeliveries, "listDeliveries", "What became of a notification, device by device, page by page",
        """
        Every delivery where `receipts` is `all`; those that failed, or were tried more than once, where it is `failures`. A page looks at \
        no more than 5000 receipts.
        """,
        parameters: [
            .query("state", .deliveryState, "Only in this state."),
            .query("reason", .string(256).example("Unregistered"), "Only with this reason: APNs' word, or ours."),
            .query("installation", .uuid, "Only to this installation."), Parameter.tokens,
        ] + Parameter.page,
        answers: [Answer(200, "One page, in the order in which their tokens became known.", .json("Deliveries"))],
        problems: ProblemCode.page + [.invalidID])

    private static let explain = Operation(
        .explainNotification, "explainNotification", "Why a notification reached a user, or did not",
        """
        What happened for that user, in order, from the match to Apple's answer. `unknown`: it was sent and no answer came, so it may \
        have arrived. What was not stored is said to be `not_recorded`; what is judged by the registry as it is now says so.
        """,
        parameters: [.query("user", user, "Whose devices.", isRequired: true)],
        answers: [Answer(200, "A verdict, one sentence, and every step.", .json("Explanation"))],
        problems: ProblemCode.strictQuery + [.outOfRange])

    private static let notificationPage = JSONSchema.answer(
        .required("notifications", .array(.reference("NotificationSummary"))), .required("next_cursor", .nextCursor))

    private static let notificationSummary = JSONSchema.answer(
        .required("id", .uuid), .required("app", .slug), .required("state", .notificationState), .required("lane", .words(Lane.self)),
        .required("push_type", .words(PushType.self)), .required("to", .reference("Address")), .required("receipts", .receiptsKept),
        .required("accepted_at", .time), .optional("not_before", .time), .optional("local_time", .localTimeAsked),
        .required("expires_at", .time), .optional("completed_at", .time), .optional("cancelled_at", .time),
        .optional("cancel_reason", .cancelReason),
        .required("counts", JSONSchema.answer(.required("total", .count), .required("pending", .count)), "Deliveries so far."))

    private static let address = JSONSchema.answer(
        .required("kind", .words(NotificationAddress.Kind.self)), .optional("user", user), .optional("installation", .uuid),
        .optional("count", .count, "Of a list: how many it names."),
        .optional("tags", .string().example("ios-17 AND NOT muted"), "The expression."))

    private static let outcomeCount = JSONSchema.answer(
        .required("class", .words(OutcomeClass.self)), .optional("status", .integer.example(410), "APNs' HTTP status."),
        .optional("reason", .outcomeReason.example("Unregistered")), .required("count", .count))

    private static let deliveryPage = JSONSchema.answer(
        .required("receipts", .receiptsKept), .required("deliveries", .array(.reference("Delivery"))), .required("next_cursor", .nextCursor)
    )

    private static let explanation = JSONSchema.answer(
        .required("id", .uuid), .required("app", .slug), .required("user", user), .required("state", .notificationState),
        .required("receipts", .receiptsKept), .required("verdict", .words(Explanation.Verdict.self)),
        .required("explanation", .string().example("Sent: APNs accepted it for 2 of 2 tokens of ada."), "One sentence."),
        .required("steps", .array(.reference("ExplanationStep")), "In order of time."),
        .optional("is_cut_short", .boolean, "The user has more devices, or the notification more deliveries, than were looked at."))

    private static let explanationStep = JSONSchema.answer(
        .required("at", .time.orNull, "Null where it is not recorded."), .required("what", .words(Explanation.What.self)),
        .required("why", .string().example("APNs accepted it."), "For people."), .optional("detail", .reference("ExplanationDetail")))

    private static let explanationDetail = JSONSchema.answer(
        .optional("installation", .uuid), .optional("delivery", .uuid, "Also the apns-id."), .optional("hint", .tokenHint),
        .optional("environment", .environment), .optional("class", .words(OutcomeClass.self)),
        .optional("status", .integer.example(410), "APNs' HTTP status."),
        .optional(
            "reason", .outcomeReason.example("Unregistered"),
            "APNs' word, or ours in `snake_case`; of a step about the device or a hold, why."),
        .optional("attempts", .count),
        .optional("hold", .uuid, "Of a step `held`: the hold that keeps it back; each that is in force has a step of its own."),
        .optional("until", .time))
}

extension JSONSchema {
    static let receiptsKept = JSONSchema.words(NotificationRequest.Receipts.self)
        .described("What is kept of each delivery: `all` a receipt, `failures` exact counters and receipts of what failed.")
}
