extension Resource {
    static let quarantine = Resource(
        "Quarantine", "Tokens that were retired as rejected while too many were: kept aside, because the fault may be ours.",
        operations: [list, restore],
        schemas: [
            "Quarantine": .answer(
                .required("total", .count, "In the whole quarantine."), .required("tokens", .array(.reference("QuarantinedToken"))),
                .required("next_cursor", .nextCursor)),
            "QuarantinedToken": .answer(
                .required("installation", .uuid), .required("hint", .tokenHint), .required("environment", .environment),
                .required("purpose", .purpose), .required("retired_at", .time), .required("quarantined_at", .time)),
            "Restoration": .request(
                .optional("installations", .array(.uuid, minimum: 1, maximum: 1000), "Only theirs; all where it is left out.")),
            "RestorationResult": .answer(
                .required("restored", .count), .required("superseded", .count, "Left alone: the installation has a newer token."),
                .required("remaining", .count, "Still in the quarantine.")),
        ])

    private static let list = Operation(
        .listQuarantine, "listQuarantine", "What is quarantined, page by page", parameters: Parameter.page,
        answers: [Answer(200, "One page, the oldest tokens first.", .json("Quarantine"))], problems: ProblemCode.cursor)

    private static let restore = Operation(
        .restoreQuarantine, "restoreQuarantine", "Bring quarantined tokens back to life", "Idempotent.",
        request: .json("Restoration", isRequired: false), answers: [Answer(200, "Restored.", .json("RestorationResult"))])
}
