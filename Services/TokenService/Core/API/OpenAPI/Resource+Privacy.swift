extension Resource {
    static let privacy = Resource(
        "Privacy", "What the law gives a person: to be told everything, and to be forgotten.", operations: [erase, export],
        schemas: [
            "Erasure": .request(.required("confirm", user, "The user's name once more.")),
            "ErasureReceipt": .answer(.required("user", user)), "UserExport": .answer(.required("user", user)),
        ])

    private static let erase = Operation(
        .eraseUser, "eraseUser", "Erase a user", "Installations, history, receipts, idempotency records. Cannot be undone.",
        request: .json("Erasure"), answers: [Answer(200, "Erased; a count per table.", .json("ErasureReceipt"))])

    private static let export = Operation(
        .exportUser, "exportUser", "Everything that is stored about a user",
        answers: [Answer(200, "Everything.", .json("UserExport"))])
}
