extension Resource {
    static let bulk = Resource(
        "Bulk", "Many installations at once: up to 1000 in a request, or any number as a stream of lines (NDJSON).",
        operations: [registerMany, importAll, exportAll],
        schemas: [
            "Registrations": .request(
                .required("installations", .array(.reference("NamedRegistration"), minimum: 1, maximum: 1000))),
            "NamedRegistration": named, "RegistrationResults": .answer(.required("results", .array(.reference("RegistrationResult")))),
            "RegistrationResult": .oneOf(registered, refused), "ImportAnswer": .oneOf(progress, failure), "ItemProblem": itemProblem,
            "ExportLine": .oneOf(exported, exportEnd, exportBroken),
        ])

    private static let registerMany = Operation(
        .registerMany, "registerInstallations", "Register up to 1000 installations",
        "Each has its own fate, as if it had been registered alone; a bad one harms no other. Results are in the order of the request.",
        request: OperationBody(
            mediaTypes: ["application/json"], schema: .reference("Registrations"), description: "At most 4 MiB.", isItemwise: true),
        answers: [Answer(200, "One result per installation.", .json("RegistrationResults"))])

    private static let importAll = Operation(
        .importInstallations, "importInstallations", "Import installations as a stream",
        """
        Answers while it reads: refused lines, in order, and now and then how far it has come. What `through` names is durable; after a \
        broken connection go on behind it, with `from_line`. The last line has `done`; without one the import is not complete. What an \
        export wrote can be imported as it is.
        """,
        parameters: [
            .query("from_line", .integer(1...1_000_000_000_000).standard(1), "The number of the first line that is sent, for the answers.")
        ],
        request: .lines("NamedRegistration", "One registration per line, at most 64 KiB; blank lines are passed over."),
        answers: [Answer(200, "The import has begun.", .lines("ImportAnswer", "A refused line, or how far it has come."))],
        problems: ProblemCode.strictQuery + [.outOfRange])

    private static let exportAll = Operation(
        .exportInstallations, "exportInstallations", "Export all installations as a stream",
        "By id, with whole tokens. The last line has `done`; one with `error` says after which id to go on.",
        parameters: [.query("after", .uuid, "Begin behind this id.")],
        answers: [
            Answer(200, "The export has begun.", .lines("ExportLine", "An installation; at the end how many, or what broke it off."))
        ],
        problems: ProblemCode.strictQuery + [.invalidID])

    private static let named = JSONSchema(.object([.required("id", .uuid, "The installation's id.")] + registrationFields, isClosed: true))

    private static let registered = JSONSchema.answer(
        .required("id", .uuid), .required("status", JSONSchema(.numbers([200, 201])), "As if it had been registered alone."),
        .required("record", .reference("Installation")))

    private static let refused = JSONSchema.answer(
        .required("id", .uuid.orNull, "Null where the item names none."), .required("status", .integer(400...599)),
        .required("error", .reference("Problem")))

    private static let progress = JSONSchema.answer(
        .optional("done", .boolean, "On the last line of a whole import."),
        .optional("error", .reference("ItemProblem"), "What broke it off."),
        .required("through", .count, "The last line that is done with."), .required("created", .count), .required("updated", .count),
        .required("failed", .count))

    private static let failure = JSONSchema.answer(
        .required("line", .count), .required("id", .uuid.orNull, "Null where the line names none."),
        .required("error", .reference("ItemProblem")))

    private static let itemProblem = JSONSchema.answer(
        .required(
            "code", .string().example("invalid_request"), "A problem's code, or `line_too_long`, or `stopping` where the process ends."),
        .required("detail", .string().example("see errors")), .optional("errors", .array(OpenAPIDocument.fault)),
        .required("retryable", .boolean.example(false)))

    private static let exported = JSONSchema.answer(
        .required("id", .uuid), .required("user", user.orNull),
        .required(
            "tokens",
            .array(
                .answer(.required("token", .deviceToken), .required("environment", .environment), .required("purpose", .purpose))),
            "The active ones."),
        .optional("locale", .string(64).example("de_DE")), .optional("time_zone", .string(64).example("Europe/Berlin")),
        .optional("app_version", .string(64).example("4.2.0")), .optional("os_version", .string(64).example("26.1")),
        .optional("device_model", .string(64).example("iPhone18,1")), .optional("tags", .array(.string(64).example("beta"))))

    private static let exportEnd = JSONSchema.answer(
        .required("done", .boolean), .required("count", .count, "How many lines stand before."))

    private static let exportBroken = JSONSchema.answer(
        .required("error", .reference("ItemProblem")), .required("after", .uuid.orNull, "Go on behind this id."))
}
