extension Resource {
    static let quarantine = Resource(
        "Quarantine", "Tokens that were rejected while too many were, and are kept aside instead of being lost.",
        operations: [list, restore],
        schemas: ["Quarantine": .answer(.required("quarantined", .count)), "Restoration": .answer(.required("restored", .count))])

    private static let list = Operation(
        .listQuarantine, "listQuarantine", "What is quarantined", answers: [Answer(200, "The quarantine.", .json("Quarantine"))])

    private static let restore = Operation(
        .restoreQuarantine, "restoreQuarantine", "Bring quarantined tokens back to life", "Idempotent.",
        answers: [Answer(200, "Restored.", .json("Restoration"))])
}
