import HTTPTypes
package import TokenServiceApps
import TokenServiceKit
import TokenServiceRegistry

extension APIRoute {
    package static let registerMany = APIRoute(.post, "/v1/apps/{app}/installations", .devices)
    package static let importInstallations = APIRoute(.post, "/v1/apps/{app}/import", .devices)
    package static let exportInstallations = APIRoute(.get, "/v1/apps/{app}/export", .devices, audit: .installationsExported)
}

extension Resource {
    package static let bulk = Resource(
        "Bulk", "Many installations at once: up to 1000 in a request, or any number as a stream of lines (NDJSON).",
        [registerMany, importAll, exportAll])

    private static let registerMany = Operation(
        .registerMany, "registerInstallations", "Register up to 1000 installations",
        "Each has its own fate, as if it had been registered alone; a bad one harms no other. Results are in the order of the request.",
        request: OperationBody(
            mediaTypes: ["application/json"], schema: BulkRegistration.request, description: "At most 4 MiB.", isItemwise: true),
        answers: [Answer(200, "One result per installation.", .json(BulkRegistration.response))])

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
        request: .lines(Registration.bulkItem, "One registration per line, at most 64 KiB; blank lines are passed over."),
        answers: [Answer(200, "The import has begun.", .lines(JSONLines.imported, "A refused line, or how far it has come."))],
        problems: [.outOfRange])

    private static let exportAll = Operation(
        .exportInstallations, "exportInstallations", "Export all installations as a stream",
        "By id, with whole tokens. The last line has `done`; one with `error` says after which id to go on.",
        parameters: [.query("after", .uuid, "Begin behind this id.")],
        answers: [
            Answer(200, "The export has begun.", .lines(JSONLines.exported, "An installation; at the end how many, or what broke it off."))
        ],
        problems: [.invalidID])

}
