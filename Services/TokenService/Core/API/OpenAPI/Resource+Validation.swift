import PushModel

/// What validating answers.
extension Resource {
    static let validate = Operation(
        .validate, "validateNotification", "Say what a notification would do, without sending it",
        """
        The same body as for sending, refused for the same reasons. Answers what would be sent, in every locale, and to how many devices. Of an \
        audience of more than 10,000 devices only so many are looked at.
        """,
        request: .json("NewNotification"), answers: [Answer(200, "It would be accepted.", .json("Validation"))],
        problems: [.laneNotAllowed])

    static let validation = JSONSchema.answer(
        .required("push_type", .words(PushType.self)), .required("topic", .string().example("com.example.shop")),
        .required("bundle_id", .string().example("com.example.shop")), .required("priority", JSONSchema(.numbers([10, 5, 1]))),
        .required("lane", .words(Lane.self)), .optional("collapse_id", .string()),
        .required("apns_expiration", .count, "UNIX seconds; 0 for one try."), .optional("not_before", .time),
        .required("on_unknown", .words(PushJob.OnUnknown.self), "As stated, or as the push type has it."),
        .optional("local_time", .localTime), .required("expires_at", .time),
        .optional("lifetime_seconds", .count, "With a local time: how long after it is due in its time zone."),
        .optional("supersede_key", .string()),
        .optional("tags", .string().example("beta AND NOT muted"), "The expression as it was understood."),
        .required("payloads", .array(.reference("RenderedPayload")), "The default first, then the locales."),
        .required("warnings", .array(OpenAPIDocument.warning), "Legal but doubtful."), .required("audience", .reference("Audience")))

    static let renderedPayload = JSONSchema.answer(
        .required("locale", JSONSchema.string().example("de").orNull, "Null for the default."), .required("bytes", .count),
        .required("maximum_bytes", .count.example(4096)), .required("payload", .dictionary(.anything), "As APNs would get it."))

    static let audience = JSONSchema.answer(
        .required("devices", .count, "Would be sent to, some of them later."),
        .required("deliveries", .count, "Tokens: a device may have one in each environment."),
        .required("is_lower_bound", .boolean, "Not everything was looked at: there may be more."),
        .required("reasons", .array(.reference("AudienceReason")), "Why devices would not be sent to, or not at once."))

    static let audienceReason = JSONSchema.answer(
        .required("reason", .words(AudienceEstimate.Reason.self).example("no_token")),
        .required("effect", .words(AudienceEstimate.Effect.self).example("not_sent")), .required("devices", .count),
        .required("detail", .string().example("there is no such installation"), "For people."))
}

extension OpenAPIDocument {
    static let warning = JSONSchema.answer(
        .required("pointer", .string().example("/ttl_seconds"), "Where: a JSON pointer into the request."),
        .required("code", .words(NotificationWarning.Code.self)), .required("detail", .string(), "For people."))
}
