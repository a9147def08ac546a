extension Resource {
    static let webhooks = Resource(
        "Webhooks",
        """
        Events by HTTP, signed as Standard Webhooks says. Each message is one CloudEvents event; at least once, in no promised order, \
        under the same `webhook-id` every time.
        """,
        operations: [create, list, read, change, delete, rotate, ping, messages, redeliver],
        schemas: [
            "NewWebhook": .request(.required("url", url), .required("events", events), .omissible("description", description)),
            "WebhookChange": .request(
                .optional("url", url), .optional("events", events), .optional("description", description.orNull),
                .optional("enabled", .boolean, "Enabling it again sends what waits for it.")),
            "Webhook": webhook, "Webhooks": .answer(.required("webhooks", .array(.reference("Webhook")))),
            "WebhookRotation": .request(
                .omissible(
                    "overlap_seconds", .integer(Webhook.overlapSeconds).standard(86_400), "How long the older secret is signed with too.")),
            "WebhookPing": .answer(.required("message", .uuid, "Its `webhook-id`.")),
            "WebhookMessage": message,
            "WebhookMessages": .answer(
                .required("messages", .array(.reference("WebhookMessage"))), .required("next_cursor", .nextCursor)),
            "WebhookRedelivery": .request(
                .optional("messages", .array(.uuid, minimum: 1, maximum: 1000), "These, whatever became of them."),
                .optional("failed", .boolean, "Instead: everything that was given up, at most 1000 a call.")),
            "WebhookRedeliveryResult": .answer(.required("redelivered", .count)),
        ])

    private static let create = Operation(
        .createWebhook, "createWebhook", "Make a webhook",
        "The answer, and that of a rotation, are the only places where the secret is shown. An app may have \(Webhook.maximumPerApp).",
        request: .json("NewWebhook"), answers: [Answer(201, "Made.", .json("Webhook"))], problems: [.tooManyWebhooks])

    private static let list = Operation(
        .listWebhooks, "listWebhooks", "All webhooks of the app", "Without their secrets.",
        answers: [Answer(200, "By age, the oldest first.", .json("Webhooks"))])

    private static let read = Operation(
        .readWebhook, "readWebhook", "One webhook", answers: [Answer(200, "The webhook.", .json("Webhook"))], problems: [.notFound])

    private static let change = Operation(
        .changeWebhook, "changeWebhook", "Change a webhook", "A merge patch (RFC 7396): what the body does not name stays as it is.",
        request: .mergePatch("WebhookChange"), answers: [Answer(200, "The webhook as it is now.", .json("Webhook"))],
        problems: [.notFound])

    private static let delete = Operation(
        .deleteWebhook, "deleteWebhook", "Delete a webhook", "With everything that waits for it.",
        answers: [Answer(204, "It is gone.")], problems: [.notFound])

    private static let rotate = Operation(
        .rotateWebhook, "rotateWebhook", "Make a new secret",
        "For a while every message is signed with both; a still older one is signed with no more.",
        request: .json("WebhookRotation", isRequired: false),
        answers: [Answer(200, "Made; `secret` is shown here only.", .json("Webhook"))], problems: [.notFound])

    private static let ping = Operation(
        .pingWebhook, "pingWebhook", "Send a test message", "It goes the way of every event; the list of messages shows what came of it.",
        answers: [Answer(202, "It waits to be sent.", .json("WebhookPing"))], problems: [.notFound, .webhookDisabled])

    private static let messages = Operation(
        .listWebhookMessages, "listWebhookMessages", "What was sent, and what waits",
        parameters: [.query("state", .words(WebhookMessage.State.self), "Only those in this state.")] + Parameter.page,
        answers: [Answer(200, "One page, the newest first.", .json("WebhookMessages"))], problems: ProblemCode.page)

    private static let redeliver = Operation(
        .redeliverWebhookMessages, "redeliverWebhookMessages", "Send messages again",
        "Under the same ids, from the first attempt on.", request: .json("WebhookRedelivery"),
        answers: [Answer(200, "They are due now.", .json("WebhookRedeliveryResult"))], problems: [.notFound])

    private static let url = JSONSchema.string(WebhookURL.maximumBytes).example("https://hooks.example.com/push")
        .described("https, a host name, no user and no fragment; its addresses must be on the public internet.")
    private static let events = JSONSchema.array(
        .string(64).example("notification.completed"), minimum: 1, maximum: WebhookFilter.maximumCount
    ).described("Events such as `notification.completed`, kinds such as `token.*`, or `*`.")
        .example(.texts(["notification.completed", "token.*"]))
    private static let description = JSONSchema.string(Webhook.maximumDescriptionBytes).example("orders team")
    private static let secret = JSONSchema.string(pattern: "^whsec_[A-Za-z0-9+/=]+$")
        .example("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")

    private static let webhook = JSONSchema.answer(
        .required("id", .uuid), .required("url", url), .required("events", events), .optional("description", description),
        .required("enabled", .boolean),
        .optional("secret", secret, "What messages are signed with; only in the answers that made it."),
        .optional("previous_secret_until", .time, "Until then messages are signed with the older secret too."),
        .optional(
            "disabled_reason", .words(Webhook.DisabledReason.self),
            "`gone`: it answered 410; `failing`: nothing succeeded for days; `backlog_full`: too much waited for it."),
        .optional("disabled_at", .time), .required("created_at", .time),
        .optional("failing_since", .time, "Since when no attempt has succeeded."), .optional("last_success_at", .time),
        .optional("last_failure_at", .time), .optional("last_failure", .string().example("status_500")))

    private static let message = JSONSchema.answer(
        .required("id", .uuid, "The event's id, and the message's `webhook-id`."),
        .required("event", .string().example("notification.completed")), .required("state", .words(WebhookMessage.State.self)),
        .required("attempts", .count), .required("created_at", .time),
        .optional("due_at", .time, "Of a pending one: not before when it is tried again."), .optional("settled_at", .time),
        .optional("last_attempt_at", .time), .optional("last_status", .integer(100...599)),
        .optional("last_error", .string().example("timeout")))
}
