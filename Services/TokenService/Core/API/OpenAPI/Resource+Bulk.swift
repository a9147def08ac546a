extension Resource {
    static let bulk = Resource(
        "Bulk", "Many installations at once.", operations: [registerMany, importAll, exportAll],
        schemas: [
            "Registrations": .request(.required("installations", .array(.anything, minimum: 1, maximum: 1000))),
            "RegistrationResults": .answer(.required("results", .array(.reference("RegistrationResult")))),
            "RegistrationResult": .answer(.required("status", .integer)),
            "ImportLine": .request(.required("id", .uuid)), "ImportResult": .answer(.required("line", .count)),
            "ExportLine": .answer(.required("id", .uuid)),
        ])

    private static let registerMany = Operation(
        .registerMany, "registerInstallations", "Register up to 1000 installations", "Each has its own fate; results are in order.",
        request: .json("Registrations"), answers: [Answer(200, "One result per installation.", .json("RegistrationResults"))])

    private static let importAll = Operation(
        .importInstallations, "importInstallations", "Import installations as a stream", "Answers while it reads.",
        request: .lines("ImportLine", "One installation per line."),
        answers: [Answer(200, "One result per line.", .lines("ImportResult", "One result per line."))])

    private static let exportAll = Operation(
        .exportInstallations, "exportInstallations", "Export all installations as a stream",
        answers: [Answer(200, "One installation per line.", .lines("ExportLine", "One installation per line."))])
}
