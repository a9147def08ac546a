import PushModel
import TokenServiceKit
import TokenServiceRegistry

/// The body of sending and of validating.
extension NotificationRequest {
    static let schema = JSONSchema.named("NewNotification", body(to: targetSchema).example(example(to: .map(["user": "ada"]))))

    static let uploadSchema = JSONSchema.named(
        "NotificationUpload", body(to: uploadTargetSchema).example(example(to: .map(["users": .texts(["ada", "grace"])]))))

    /// Its fields have the same meaning as in any notification.
    static let broadcastSchema = JSONSchema.named(
        "NewBroadcast",
        .request(
            [
                .omissible(
                    "fallback", .words(Fallback.self),
                    "`activities`: those of the channel that have update tokens are updated one by one, too. For devices below iOS 18.")
            ]
                + fields.filter { $0.use == .everywhere }.map(\.described)
        ).example(.map(["content": .map(["event": "update", "content_state": .map(["home": 1, "guest": 0])])])))

    private static func body(to target: JSONSchema) -> JSONSchema { .request([.required("to", target)] + fields.map(\.described)) }

    /// A field beside the target.
    private struct Field {
        let described: JSONSchema.Field
        let use: Use

        static func omissible(_ name: String, _ schema: JSONSchema, _ description: String, _ use: Use = .everywhere) -> Field {
            Field(described: .omissible(name, schema, description), use: use)
        }
    }

    /// The requests that take a field. A number is the field's place among the faults of a broadcast.
    private enum Use: Equatable {
        case everywhere
        /// A broadcast may have it, and never needs it.
        case notShownInBroadcasts
        case notInBroadcasts(Int)
        /// Neither a broadcast nor an activity's update or end may have it.
        case notInStates(Int)
    }

    /// In the order of their faults.
    static let refusedInStates = fields.compactMap { field in
        if case .notInStates = field.use { field.described.name } else { nil }
    }
    static let refusedInBroadcasts = fields.compactMap { field -> (name: String, place: Int)? in
        switch field.use {
        case .notInBroadcasts(let place), .notInStates(let place): (field.described.name, place)
        case .everywhere, .notShownInBroadcasts: nil
        }
    }.sorted { $0.place < $1.place }.map(\.name)

    private static let fields: [Field] = [
        .omissible("content", contentSchema, "What to show, in typed fields. Either this or payload."),
        .omissible("payload", payload, "The whole APNs body, passed on byte for byte; at most 4096 bytes, voip 5120."),
        .omissible(
            "locales", .dictionary(variantSchema),
            """
            By language tag (BCP 47, any case): what devices of that locale get instead; `de` is for de-AT too. Whole, not merged. At most \
            100.
            """,
            .notInBroadcasts(2)),
        .omissible(
            "push_type", .words(PushType.self), "Derived from the content where that is certain: alert, background or liveactivity.",
            .notShownInBroadcasts),
        .omissible(
            "activity", .string(Purpose.maximumNameBytes).example("ride-4711"),
            "With event start to one user or installation: the id of the Live Activity, under which updates and ends address it.",
            .notInBroadcasts(1)),
        .omissible("priority", .numbers([10, 5, 1]), "Which ones are allowed depends on the push type."),
        .omissible(
            "collapse_id", .string(64).example("order-4711"),
            "A later one of the same id replaces this one. At most 64 bytes, no control characters, no blank at either end.",
            .notInBroadcasts(6)),
        .omissible("not_before", .time, "When it is due; at most 30 days ahead. At once where it is left out.", .notInStates(3)),
        .omissible(
            "local_time", .localTime,
            "Instead of not_before: when it is this time where the device is. Devices that report no time zone count as UTC.",
            .notInStates(4)),
        .omissible("expires_at", .time, "When it is too late; at most 72 hours after it is due. Not together with ttl_seconds."),
        .omissible("ttl_seconds", .integer(1...259_200), "The same, counted from when it is due; 86400 where both are left out."),
        .omissible(
            "apns_expiration", .count,
            """
            How long APNs may store it, in UNIX seconds, at most 30 days after it is due; 0 for one try. The expiry where it is left out.
            """),
        .omissible(
            "urgent", JSONSchema.boolean.standard(false),
            "Also in the user's quiet hours. A Live Activity's update and end always go at once, and do not take it.", .notInStates(5)),
        .omissible(
            "lane", .words(Lane.self),
            """
            One lane never waits behind another. By itself: now for one user or installation, soon for lists and for background pushes, \
            bulk for tags, for all and for lists of more than 1000. Slower is free; faster needs the scope admin.
            """
        ),
        .omissible(
            "supersede_key", .string(64).example("ride-4711-eta"),
            """
            Only to one user or one installation: older notifications to them with this key are stopped, as far as they were not sent yet. \
            At most 64 bytes, no control characters.
            """,
            .notInStates(7)),
        .omissible(
            "receipts", .words(Receipts.self),
            "One receipt for each delivery, or for failures alone; by itself as the audience is small or large."),
        .omissible(
            "device_receipts", JSONSchema.boolean.standard(false),
            """
            Devices with PushClient report that they showed, opened or dismissed it. Only with push type alert. The payload gets a key \
            `push-receipt` that names notification and job, of at most 88 bytes.
            """, .notShownInBroadcasts),
        .omissible(
            "on_unknown", .words(PushJob.OnUnknown.self),
            """
            What to do when a request left and APNs' answer got lost: resend it until an answer comes; resend_once, at once and only \
            within 5 seconds of the 202; drop it. By itself: drop for a Live Activity's start, because two activities would show; \
            resend_once for voip and pushtotalk, because a late ring is worse than none; resend for all else.
            """),
    ]

    private static func example(to target: DocumentNode) -> DocumentNode {
        .map(["to": target, "content": contentExample, "collapse_id": "order-4711", "ttl_seconds": 3600])
    }

    private static let payload = JSONSchema.dictionary(.anything).example(.map(["aps": .map(["alert": "Your order is packed"])]))

    /// Exactly one.
    private static let targetSchema = JSONSchema.named(
        "Target",
        .oneOf(
            .request(
                "UserTarget",
                [
                    .required("user", .user, "Every device that this user is signed in on."),
                    .omissible(
                        "activity", .string(Purpose.maximumNameBytes).example("ride-4711"),
                        "With event update and end: the user's Live Activity of this id, on every device that has it."),
                    .omissible(
                        "activity_type", .string(Purpose.maximumNameBytes).example("Ride"),
                        """
                        With event update and end: the user's only Live Activity of this attributes type. With a start: its attributes \
                        type, once more.
                        """
                    ),
                ]),
            .request(
                "UsersTarget",
                [.required("users", .array(.user, minimum: 1, maximum: Target.maximumListed), "A user named twice counts once.")]
            ),
            .request(
                "InstallationTarget",
                [
                    .required("installation", .uuid),
                    .omissible(
                        "activity", .string(Purpose.maximumNameBytes).example("ride-4711"),
                        "With event update and end: the Live Activity of this id that the installation has while no user is signed in."),
                ]),
            .request("InstallationsTarget", [.required("installations", .array(.uuid, minimum: 1, maximum: Target.maximumListed))]),
            .request("TokensTarget", [.required("tokens", .array(.deviceToken, minimum: 1, maximum: Target.maximumListed))]),
            .request(
                "TagsTarget",
                [
                    .required(
                        "tags",
                        JSONSchema(.string(.init(minimum: 1, maximum: TagExpression.maximumBytes)))
                            .example("beta AND (staff OR app:football) AND NOT muted"),
                        """
                        A bare word is a tag of your backend, `app:football` a tag that the app reports. NOT binds closest, then AND, \
                        then OR. A tag with blanks or operators in it stands in double quotes: `"app:big spender"`. \
                        `permission:denied` stands for the permission that the app last reported; `permission:unknown`: none. At most \
                        100 tags, and 7,168 bytes: those of the tags, 13 more for each tag and 12 for each AND, OR and NOT.
                        """
                    )
                ]),
            .request("AllTarget", [.required("all", .boolean.example(true), "Every installation of the app; true.")])))

    /// Exactly one.
    private static let uploadTargetSchema = JSONSchema.named(
        "UploadTarget",
        .oneOf(
            .request([
                .required("users", .array(.user, minimum: 1, maximum: Target.maximumUploaded), "A user named twice counts once.")
            ]),
            .request([.required("installations", .array(.uuid, minimum: 1, maximum: Target.maximumUploaded))])))

    private static let variantSchema = JSONSchema.request(
        "Variant", [.omissible("content", contentSchema), .omissible("payload", payload)])

    private static let contentSchema = JSONSchema.named("Content", ContentField.contentSchema.example(contentExample))
    private static let contentExample = DocumentNode.map([
        "alert": .map(["title": "Your order is packed", "body": "It leaves tonight"]), "sound": "default",
    ])
}

extension JSONSchema {
    static let localTime = JSONSchema.string(pattern: "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}$")
        .example("2026-11-22T09:00")
}
