import HTTPTypes
package import TokenServiceApps
import TokenServiceKit
import TokenServiceRegistry

extension APIRoute {
    package static let health = APIRoute(.get, "/healthz")
    package static let readiness = APIRoute(.get, "/readyz")
    package static let metrics = APIRoute(.get, "/metrics")
    package static let home = APIRoute(.get, "/")
    package static let descriptionPage = APIRoute(.get, "/docs")
    package static let console = APIRoute(.get, "/console")
    package static let consoleFile = APIRoute(.get, "/console/{file}")
    package static let description = APIRoute(.get, "/openapi.json")
}

extension Resource {
    static let process = Resource(
        "Operations", "For the machines that run the service; they need no key and show no data.",
        [health, readiness, metrics, home, page, console, consoleFile, description])

    private static let health = Operation(
        .health, "health", "Whether the process runs", answers: [Answer(200, "It does.", .json(healthSchema))])

    private static let readiness = Operation(
        .readiness, "readiness", "Whether it can do its work",
        answers: [Answer(200, "It can.", .json(readinessSchema)), Answer(503, "It cannot now.", .json(readinessSchema))])

    private static let metrics = Operation(
        .metrics, "metrics", "Metrics", "Prometheus text format.", answers: [Answer(200, "All metrics.", .text("text/plain"))])

    private static let home = Operation(
        .home, "home", "The first page", "Leads to the console and to this description.", parameters: [Parameter.ifNoneMatch],
        answers: [Answer(200, "The page.", .text("text/html"), headers: [entityTag]), unchanged])

    private static let console = Operation(
        .console, "console", "The console", "HTML, with scripts of this service only. It asks for a key, which stays in the page's memory.",
        parameters: [Parameter.ifNoneMatch], answers: [Answer(200, "The page.", .text("text/html"), headers: [entityTag]), unchanged])

    private static let consoleFile = Operation(
        .consoleFile, "consoleFile", "A file of the console", parameters: [Parameter.ifNoneMatch],
        answers: [
            Answer(200, "The file.", .text("text/javascript", "text/css", "image/svg+xml", "text/html"), headers: [entityTag]), unchanged,
        ], problems: [.notFound])

    private static let description = Operation(
        .description, "description", "This description", "OpenAPI 3.1 in JSON.", parameters: [Parameter.ifNoneMatch],
        answers: [
            Answer(200, "The description.", .json(JSONSchema.anything), headers: [entityTag]),
            unchanged,
        ])

    private static let page = Operation(
        .descriptionPage, "descriptionPage", "This description, for people",
        "HTML without scripts and outside resources.",
        parameters: [Parameter.ifNoneMatch], answers: [Answer(200, "The page.", .text("text/html"), headers: [entityTag]), unchanged])

    private static let entityTag = Answer.Header.always("ETag", .string().example("\"4f2a\""), "Changes with the content.")
    private static let unchanged = Answer(304, "As before.", headers: [entityTag])

    // The Observability module writes these two, for every service alike.
    private static let healthSchema = JSONSchema.named(
        "Health",
        .answer([
            .required("status", .words(["ok"])), .required("version", .string().example("1.0.0-beta.1")),
            .required("commit", .string().example("unknown")),
        ]))
    private static let readinessSchema = JSONSchema.named(
        "Readiness",
        .answer([
            .required("ready", .boolean),
            .required(
                "checks",
                .dictionary(.named("ReadinessCheck", .answer([.required("ok", .boolean), .required("detail", .string())])))),
        ]))
}
