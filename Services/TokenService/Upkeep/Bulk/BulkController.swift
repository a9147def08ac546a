import HTTPTypes
import Hummingbird
import NIOCore
package import Postgres
import PushModel
import StrictJSON
package import TokenServiceApps
package import TokenServiceKit
package import TokenServiceRegistry

/// Many installations at once: `POST /v1/apps/{app}/installations`, `…/import` and `…/export`.
package struct BulkController: Sendable {
    private static let lineDelimited = "application/x-ndjson"

    private let pool: PostgresPool
    private let registration: BulkRegistration
    private let importing: InstallationImport
    private let exporting: InstallationExport
    private let streams: SharedLimit

    package init(
        pool: PostgresPool, registration: InstallationRegistration, streams: SharedLimit, metrics: RegistryMetrics,
        errors: InternalErrors
    ) {
        let register: InstallationImport.Register = { registrations, app in
            let results = await registration.register(registrations, app: app)
            // These metrics count successes only. An import counts its failures where it answers them (``ImportTotals``).
            let done = results.compactMap { if case .success(let result) = $0 { result } else { nil } }
            let created = done.count(where: \.isNew)
            metrics.registered(created: created, updated: done.count - created)
            return results
        }
        self.pool = pool
        self.streams = streams
        self.registration = BulkRegistration(register: register, errors: errors)
        importing = InstallationImport(errors: errors, register: register)
        exporting = InstallationExport(errors: errors) { app, cursor, limit in
            try await pool.session { session in try ExportStore(session: session, app: app).page(after: cursor, limit: limit) }
        }
    }

    package func bind(to router: some RouteBinder) {
        router.on(.registerMany, registerMany)
        router.on(.importInstallations, importLines)
        router.on(.exportInstallations, exportLines)
    }

    @Sendable private func registerMany(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let body = try await call.body(maximumBytes: BulkRegistration.maximumBodyBytes)
        return try await offItsLoop { try await registerMany(body, of: call, app: app) }
    }

    private func registerMany(_ body: CallBody, of call: APICall, app: App) async throws -> Response {
        let items = try body.object { BulkRegistration.Items(&$0, app: app) }
        call.charge(items.items.count - 1)
        let outcomes = await registration.register(items, app: app)
        return JSONAnswer.response(.ok, BulkRegistration.response, outcomes.map { OfApp(app: app.slug, value: $0) })
    }

    @Sendable private func importLines(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let firstLine = try Self.firstLine(call.query("from_line"))
        if let type = call.request.headers[.contentType], !type.lowercased().hasPrefix(Self.lineDelimited) {
            throw APIError(.unsupportedMediaType, "the body must be \(Self.lineDelimited)")
        }
        try CallBody.expectPlain(call.request)
        let body = call.request.body
        return try stream(call) { [importing] writer in
            var answers = importing.begin(body, app: app, firstLine: firstLine, onChunk: call.charge)
            do {
                while let answer = await answers.next() { try await writer.write(answer) }
                try await writer.finish(nil)
            } catch {
                await answers.end()
                throw error
            }
            await answers.end()
        }
    }

    @Sendable private func exportLines(_ call: APICall) async throws -> Response {
        let app = try call.app()
        let after = try Self.id(call.query("after"))
        let answer = try stream(call) { [exporting] writer in
            var lines = exporting.begin(app: app, after: after)
            while let line = await lines.next() { try await writer.write(line) }
            try await writer.finish(nil)
        }
        // A request that finds no place is refused and leaves no entry.
        try await call.record(.installationsExported, of: nil, in: pool)
        return answer
    }

    private func stream(
        _ call: APICall, _ write: @escaping @concurrent @Sendable (inout any ResponseBodyWriter) async throws -> Void
    ) throws -> Response {
        let place = try streams.enter(call.caller)
        return Response(
            status: .ok, headers: [.contentType: Self.lineDelimited, .cacheControl: "no-store"],
            body: call.stream(holding: place, write))
    }

    private static func firstLine(_ text: String?) throws -> Int {
        guard let text else { return 1 }
        guard let line = Int(text), (1...1_000_000_000_000).contains(line) else {
            throw APIError.invalid("from_line", .outOfRange, "must be the number of the first line that is sent, 1 or more")
        }
        return line
    }

    private static func id(_ text: String?) throws -> PushID? {
        guard let text else { return nil }
        guard let id = PushID(text) else { throw APIError.invalid("after", .invalidID, "must be a UUID") }
        return id
    }
}

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
