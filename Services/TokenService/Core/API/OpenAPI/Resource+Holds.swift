import PushModel

extension Resource {
    static let holds = Resource(
        "Holds",
        """
        Stopping what matches, in order to go on later: an app, one of its notifications, a lane. What is held is kept: it waits until the hold is lifted or ends, \
        and expires when it would have. Holds add up: what two of them keep waits for both. Nothing that matches leaves from one second after \
        `fence` is `effective`.
        """,
        operations: [set, list, read, lift, setGlobal, listAll, readAny, liftAny],
        schemas: [
            "NewHold": .request(
                scope + [.omissible("notification", .uuid, "Or this notification of the app.")] + terms),
            "NewGlobalHold": .request(scope + terms),
            "Hold": .answer(
                .required("id", .uuid), .optional("app", .slug, "Absent: every app."),
                .optional("all", .boolean, "Everything of the app, or of every app."), .optional("lane", .words(Lane.self)),
                .optional("notification", .uuid),
                .required("state", state, "`live`: in force; `expired`: it ended by itself; `lifted`: somebody ended it."),
                .required("reason", .string()), .required("set_at", .time), .required("set_by", .keyID, "The API key's id."),
                .optional("expires_at", .time, "Absent: it lasts until it is lifted."), .optional("lifted_at", .time),
                .optional("lifted_by", .keyID, "The API key's id."),
                .required(
                    "fence", .fence, "Whether the dispatchers' control stream has it, or that it is lifted; `none` where it expired.")),
            "Holds": .answer(.required("holds", .array(.reference("Hold"))), .required("next_cursor", .nextCursor)),
        ])

    private static let scope: [JSONSchema.Field] = [
        .omissible("all", .boolean, "`true`: everything. Exactly one of these is given."),
        .omissible("lane", .words(Lane.self), "Or this lane."),
    ]
    private static let terms: [JSONSchema.Field] = [
        .required(
            "reason", .string(HoldRequest.maximumReasonBytes).example("wrong prices in the spring campaign"),
            "For whoever finds it; at most 500 bytes."),
        .omissible("expires_at", .time, "When it ends by itself, at most 30 days ahead; left out, it lasts until it is lifted."),
        .omissible("ttl_seconds", .integer(HoldRequest.ttlSeconds), "The same, from now on."),
    ]
    private static let state = JSONSchema.words(Hold.State.self)
    private static let filters = Parameter.page + [.query("state", state, "Only those; left out: all that there ever were.")]
    private static let location = Answer.Header.always("Location", .string(), "Where it can be read and lifted.")

    private static let set = Operation(
        .setHold, "setHold", "Hold an app, one of its lanes or one of its notifications", "Two calls set two holds: each has to be lifted.",
        request: .json("NewHold"), answers: [Answer(201, "Set.", .json("Hold"), headers: [location])], problems: [.tooManyHolds])

    private static let list = Operation(
        .listHolds, "listHolds", "An app's holds, and those over every app, the newest first", parameters: filters,
        answers: [Answer(200, "One page.", .json("Holds"))], problems: ProblemCode.page)

    private static let read = Operation(
        .readHold, "readHold", "One hold of an app, or over every app", answers: [Answer(200, "The hold.", .json("Hold"))])

    private static let lift = Operation(
        .liftHold, "liftHold", "Lift a hold of an app",
        """
        What waits is sent: in the outbox at once, in the broker within the wait that it is in (seconds where little is held, at most ten minutes). Idempotent; \
        the hold stays to be read. One over every app is lifted where it was set.
        """,
        answers: [Answer(200, "Lifted, or over before.", .json("Hold"))])

    private static let setGlobal = Operation(
        .setGlobalHold, "setGlobalHold", "Hold a lane of every app, or everything", request: .json("NewGlobalHold"),
        answers: [Answer(201, "Set.", .json("Hold"), headers: [location])], problems: [.tooManyHolds])

    private static let listAll = Operation(
        .listAllHolds, "listAllHolds", "Every hold, the newest first", parameters: filters,
        answers: [Answer(200, "One page.", .json("Holds"))], problems: ProblemCode.page)

    private static let readAny = Operation(
        .readAnyHold, "readAnyHold", "One hold", answers: [Answer(200, "The hold.", .json("Hold"))], problems: [.notFound])

    private static let liftAny = Operation(
        .liftAnyHold, "liftAnyHold", "Lift any hold", "As for a hold of an app.",
        answers: [Answer(200, "Lifted, or over before.", .json("Hold"))], problems: [.notFound])
}
