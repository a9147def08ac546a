import NIOCore
package import PushModel
package import StrictJSON
import TokenServiceKit
package import TokenServiceRegistry

/// The answer to an import or an export, line by line.
struct JSONLines {
    private(set) var buffer = ByteBuffer()

    private mutating func line<Value>(_ schema: ResponseSchema<Value>, _ value: Value) {
        var writer = JSONWriter()
        schema.write(value, &writer)
        buffer.writeBytes(writer.bytes)
        buffer.writeInteger(UInt8(ascii: "\n"))
    }

    mutating func failures(_ answer: ImportAnswer) {
        for failure in answer.failures { line(Self.failure, failure) }
    }

    mutating func warnings(_ answer: ImportAnswer) {
        for warned in answer.warnings { line(Self.warned, warned) }
    }

    mutating func progress(_ totals: ImportTotals) { line(Self.progress, Progress(totals: totals)) }

    mutating func done(_ totals: ImportTotals) { line(Self.progress, Progress(isDone: true, totals: totals)) }

    /// The last line of a stream that could not go on; it names the line to resume from.
    mutating func broken(_ fault: BulkFault, _ totals: ImportTotals) { line(Self.progress, Progress(fault: fault, totals: totals)) }

    mutating func installation(_ installation: ExportedInstallation) { line(ExportedInstallation.response, installation) }

    mutating func exported(count: Int) { line(Self.exportEnd, count) }

    mutating func broken(_ fault: BulkFault, after cursor: PushID?) { line(Self.exportBroken, (fault, cursor)) }
}

extension JSONLines {
    static let imported = JSONSchema.named("ImportAnswer", .oneOf(progress.schema, failure.schema, warned.schema))
    static let exported = JSONSchema.named(
        "ExportLine", .oneOf(ExportedInstallation.response.schema, exportEnd.schema, exportBroken.schema))

    private struct Progress {
        var isDone: Bool?
        var fault: BulkFault?
        let totals: ImportTotals
    }

    private static let progress = ResponseSchema<Progress>.object(
        nil,
        [
            .optional("done", .boolean, "On the last line of a whole import.") { $0.isDone },
            .optional("error", BulkFault.response, "What broke it off.") { $0.fault },
            .all(ImportTotals.fields) { $0.totals },
        ])

    private static let failure = ResponseSchema<(line: Int, fault: BulkFault)>.object(
        nil,
        [
            .required("line", .count) { $0.line },
            .nullable("id", .uuid, "Null where the line names none.") { $0.fault.id },
            .required("error", BulkFault.response) { $0.fault },
        ])

    private static let warned = ResponseSchema<(line: Int, id: PushID, warnings: [RegistrationWarning])>.object(
        nil,
        [
            .required("line", .count) { $0.line },
            .required("id", .uuid) { $0.id },
            .required("warnings", .array(RegistrationWarning.response), "The line is registered.") { $0.warnings },
        ])

    private static let exportEnd = ResponseSchema<Int>.object(
        nil, [.required("done", .boolean) { _ in true }, .required("count", .count, "How many lines stand before.") { $0 }])

    private static let exportBroken = ResponseSchema<(fault: BulkFault, after: PushID?)>.object(
        nil, [.required("error", BulkFault.response) { $0.fault }, .nullable("after", .uuid, "Go on behind this id.") { $0.after }])
}

/// One installation as an import takes it: the state of its last registration, and its active tokens in full.
package struct ExportedInstallation: Equatable, Sendable {
    package var id: PushID
    package var user: String?
    package var tokens: [RegisteredToken]
    package var profile: InstallationProfile
    /// The backend's.
    package var tags: [String] = []
}

extension ExportedInstallation {
    static let response = ResponseSchema<ExportedInstallation>.object(
        nil,
        [
            .required("id", .uuid) { $0.id },
            .nullable("user", .text(.user)) { $0.user },
            .required("tokens", .array(RegisteredToken.response), "The active ones.") { $0.tokens },
            .all(InstallationProfile.texts) { $0.profile },
            .optional("tags", .array(.text(.tag)), "The backend's.") { $0.tags.isEmpty ? nil : $0.tags },
            .optional("app_tags", .array(.text(.tag)), "The app's own.") { $0.profile.appTags.isEmpty ? nil : $0.profile.appTags },
        ])
}

/// Why one item among many was not registered.
package struct BulkFault: Sendable {
    package var id: PushID?
    /// The fault's code, as in a problem document.
    package var code: String
    package var detail: String
    package var errors: [JSONProblem] = []
    /// Whether the same item may succeed later.
    package var isRetryable: Bool

    package init(id: PushID?, code: String, detail: String, isRetryable: Bool) {
        self.id = id
        self.code = code
        self.detail = detail
        self.isRetryable = isRetryable
    }

    package init(id: PushID?, problems: [JSONProblem]) {
        self.init(id: id, APIError.invalid(problems))
    }

    init(id: PushID?, _ error: APIError) {
        self.init(id: id, code: error.code.rawValue, detail: error.detail, isRetryable: error.isRetryable)
        errors = error.errors
    }

    /// The value of an `error` field.
    static let response = ResponseSchema<BulkFault>.object(
        "ItemProblem",
        [
            .required(
                "code", .text(.string().example("invalid_request")),
                "A problem's code, or `line_too_long`, or `stopping` where the process ends."
            ) { $0.code },
            .required("detail", .text(.string().example("see errors"))) { $0.detail },
            .optional("errors", .array(JSONProblem.response)) { $0.errors.isEmpty ? nil : $0.errors },
            .required("retryable", .retryable) { $0.isRetryable },
        ])
}
