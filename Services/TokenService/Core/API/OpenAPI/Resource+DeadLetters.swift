import PushModel

extension Resource {
    static let deadLetters = Resource(
        "Dead letters", "Jobs that were given up, and messages that nobody could read. They wait in the broker until they are replayed or dropped.",
        operations: [list, read, replay, drop],
        schemas: [
            "DeadLetters": .answer(
                .required("matched", .count, "That the filters meet."), .required("seen", .count, "That were looked at."),
                .required("complete", .boolean, "False: there are more than one call looks at."),
                .required("counts", .array(.reference("DeadLetterCount"))),
                .required("letters", .array(.reference("DeadLetter")), "The oldest first.")),
            "DeadLetterCount": .answer(
                .required("reason", reason), .optional("app", .slug), .required("letters", .count), .required("deliveries", .count)),
            "DeadLetter": .answer(fields), "DeadLetterInFull": .answer(fields + [job]),
            "DeadLetterReplay": .request(
                filters + [
                    .omissible(
                        "extend_seconds", .integer(DeadLettersController.extensionSeconds),
                        "Notifications that are past their expiry get so many seconds more; without it they are left alone.")
                ]),
            "DeadLetterReplayResult": .answer(
                .required("letters", .count, "Gone from the dead letters."), .required("kept", .count, "Still there."),
                .required("unreadable", .count, "Of those, no jobs."), .required("deliveries", .reference("DeadLetterVerdicts")),
                .required("remaining", .count, "Others that the filters meet: call again.")),
            "DeadLetterVerdicts": .answer(
                .required("sent", .count, "Published anew."), .required("fenced", .count, "Another user is signed in, or nobody."),
                .required("token_gone", .count, "The installation has no live token."), .required("cancelled", .count),
                .required("settled", .count, "Has an outcome that is no failure, or the present token has had it."),
                .required("expired", .count, "Past its expiry; kept."),
                .required("undecided", .count, "Its outcome is still on its way; kept."),
                .required("forgotten", .count, "The notification is removed; kept.")),
            "DeadLetterFilter": .request(filters),
            "DeadLetterDropResult": .answer(
                .required("letters", .count), .required("deliveries", .count), .required("remaining", .count, "Call again.")),
        ])

    private static let busy: [ProblemCode] = [.deadLettersBusy, .brokerUnavailable]

    private static let list = Operation(
        .listDeadLetters, "listDeadLetters", "What was given up, and how many of what",
        "Looks at the oldest 20,000. Nothing is taken out of its place.",
        parameters: [
            .query("limit", .integer(1...1000).standard(100), "Letters to show."), .query("app", .slug, "Of this app."),
            .query("reason", reason, "Given up for this reason."), .query("lane", .words(Lane.self), "Of this lane."),
            .query("notification", .uuid, "Of this notification."),
        ], answers: [Answer(200, "Counts of all that the filters meet, and the oldest of them.", .json("DeadLetters"))],
        problems: ProblemCode.query + [.outOfRange, .invalidID] + busy)

    private static let read = Operation(
        .readDeadLetter, "readDeadLetter", "One dead letter", "With its job, without payload and whole tokens.",
        answers: [Answer(200, "The letter.", .json("DeadLetterInFull"))], problems: [.notFound] + busy)

    private static let replay = Operation(
        .replayDeadLetters, "replayDeadLetters", "Send again what was given up",
        """
        Every delivery is resolved anew: it goes to the device only where the user it was for is still signed in, and to the token that the \
        installation has now; under the same id, so that a copy that arrived after all is replaced. At most 500 letters a call; repeatable.
        """,
        request: .json("DeadLetterReplay"), answers: [Answer(200, "What became of each.", .json("DeadLetterReplayResult"))],
        problems: busy)

    private static let drop = Operation(
        .dropDeadLetters, "dropDeadLetters", "Drop dead letters for good", "At most 500 a call.", request: .json("DeadLetterFilter"),
        answers: [Answer(200, "Dropped.", .json("DeadLetterDropResult"))], problems: busy)

    private static let reason = JSONSchema.string(64).example("attempts_used_up")

    private static let filters: [JSONSchema.Field] = [
        .optional("ids", .array(.uuid, minimum: 1, maximum: 500)), .omissible("app", .slug), .omissible("reason", reason),
        .omissible("lane", .words(Lane.self)), .omissible("notification", .uuid),
        .omissible("all", .boolean, "True, and no filter: all there are."),
    ]

    private static let fields: [JSONSchema.Field] = [
        .required("id", .uuid.orNull, "Null where its sender gave none."), .required("reason", reason), .optional("detail", .string()),
        .optional("source", .string(), "The queue that it came from."), .optional("at", .time, "When it was given up."),
        .required("bytes", .count), .optional("app", .slug), .optional("lane", .words(Lane.self)), .optional("notification", .uuid),
        .optional("push_type", .words(PushType.self)), .optional("attempts", .count), .optional("deliveries", .count),
        .optional("expires_at", .time),
    ]
    private static let job = JSONSchema.Field.optional("job", .anything, "The job, for people; its form may change.")
}
