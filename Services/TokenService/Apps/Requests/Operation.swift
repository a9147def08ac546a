package import HTTPTypes
package import Hummingbird
import PushModel
package import TokenServiceKit

/// The input and the answers of one route, errors included.
package struct Operation: Sendable {
    package let route: APIRoute
    /// The name of the operation in generated clients.
    package let id: String
    package let summary: String
    package let details: String
    /// The parameters in the query and in headers; those in the path are ``pathParameters``.
    package let parameters: [Parameter]
    package let request: OperationBody?
    package let answers: [Answer]
    private let ownProblems: [ProblemCode]

    /// - Parameter problems: The problems that only this route answers; ``problems`` adds those that follow from its kind.
    package init(
        _ route: APIRoute, _ id: String, _ summary: String, _ details: String = "", parameters: [Parameter] = [],
        request: OperationBody? = nil, answers: [Answer], problems: [ProblemCode] = []
    ) {
        self.route = route
        self.id = id
        self.summary = summary
        self.details = details
        self.parameters = parameters
        self.request = request
        self.answers = answers
        ownProblems = problems
    }

    /// Every refusal that this operation can answer with, by status.
    package var problems: [ProblemCode] {
        let all = Set(ownProblems + impliedProblems)
        return ProblemCode.allCases.filter(all.contains).sorted { $0.kind.status.code < $1.kind.status.code }
    }

    private var impliedProblems: [ProblemCode] {
        // The process's own routes cannot fail: they read memory.
        guard !route.scopes.isEmpty else { return [] }
        var problems = ProblemCode.admission
        if route.isOfApp { problems.append(.notFound) }
        if pathParameters.contains(where: { $0.schema.isUUID }) { problems.append(.invalidID) }
        if pathParameters.contains(where: { !$0.schema.isUUID && $0.name != "app" }) || pathParameters.contains(where: { $0.name == "id" })
        {
            problems.append(.invalidPath)
        }
        if route.isForDevices { problems += [.credentialExpired, .credentialRevoked] }
        if let request { problems += request.problems }
        return problems
    }

    /// The parameters in the path, in its order.
    package var pathParameters: [Parameter] {
        route.path.split(separator: "/").filter { $0.hasPrefix("{") }.map { part in
            Parameter.path(String(part.dropFirst().dropLast()), of: route)
        }
    }

    /// Whether the answer may be had without a key.
    package var isOpen: Bool { route.scopes.isEmpty }
}

package struct Parameter: Sendable {
    package enum Place: String, Sendable {
        case path, query, header
    }

    package let name: String
    package let place: Place
    package let schema: JSONSchema
    package let description: String
    package let isRequired: Bool

    package static func query(_ name: String, _ schema: JSONSchema, _ description: String, isRequired: Bool = false) -> Parameter {
        Parameter(name: name, place: .query, schema: schema, description: description, isRequired: isRequired)
    }

    package static func header(_ name: String, _ schema: JSONSchema, _ description: String) -> Parameter {
        Parameter(name: name, place: .header, schema: schema, description: description, isRequired: false)
    }

    /// The parts of paths mean the same everywhere.
    fileprivate static func path(_ name: String, of route: APIRoute) -> Parameter {
        let (schema, description): (JSONSchema, String) =
            switch name {
            case "app", "slug": (.slug, "The app's slug.")
            case "activity": (.string(Purpose.maximumNameBytes).example("ride-4711"), "The app's id of the Live Activity, percent-encoded.")
            case "channel":
                (
                    .string(Purpose.maximumNameBytes).example("game-17"),
                    "The backend's own name of the channel, percent-encoded. At most 128 bytes of UTF-8."
                )
            case "file": (.string(64).example("main.js"), "The file's name.")
            case "user": (.string(256).example("ada"), "The user's name, percent-encoded. At most 256 bytes of UTF-8.")
            case "id" where route.path.contains("/keys/"): (.keyID, "The key's id: the middle part of its text.")
            case "id" where route.path.contains("/notifications/"): (.uuid, "The notification's id.")
            case "id" where route.path.contains("/dead-letters/"): (.uuid, "The letter's id.")
            case "id" where route.path.contains("/holds/"): (.uuid, "The hold's id.")
            case "id" where route.path.contains("/webhooks/"): (.uuid, "The webhook's id.")
            default: (.uuid, "The installation's id.")
            }
        return Parameter(name: name, place: .path, schema: schema, description: description, isRequired: true)
    }
}

/// The body of a request or an answer.
package struct OperationBody: Sendable {
    package let mediaTypes: [String]
    package let schema: JSONSchema
    package var isRequired = true
    package var description: String?
    /// Whether a body with some bad items is accepted, because each item is answered on its own.
    package var isItemwise = false

    package init(mediaTypes: [String], schema: JSONSchema, isRequired: Bool = true, description: String? = nil, isItemwise: Bool = false) {
        self.mediaTypes = mediaTypes
        self.schema = schema
        self.isRequired = isRequired
        self.description = description
        self.isItemwise = isItemwise
    }

    package static func json(_ schema: JSONSchema, isRequired: Bool = true) -> OperationBody {
        OperationBody(mediaTypes: ["application/json"], schema: schema, isRequired: isRequired)
    }

    package static func json<Value>(_ response: ResponseSchema<Value>) -> OperationBody { json(response.schema) }

    package static func mergePatch(_ schema: JSONSchema) -> OperationBody {
        OperationBody(mediaTypes: ["application/merge-patch+json", "application/json"], schema: schema)
    }

    /// One JSON value per line.
    package static func lines(_ schema: JSONSchema, _ description: String) -> OperationBody {
        OperationBody(mediaTypes: [Self.linesType], schema: schema, isRequired: false, description: description, isItemwise: true)
    }

    package static func text(_ mediaTypes: String...) -> OperationBody {
        OperationBody(mediaTypes: mediaTypes, schema: .string())
    }

    static let linesType = "application/x-ndjson"

    /// Whether the schema describes each line and not the whole.
    package var isLines: Bool { mediaTypes == [Self.linesType] }

    fileprivate var problems: [ProblemCode] {
        // The service reads lines after it has sent the status: an import that stops ends early.
        isLines
            ? [.unsupportedMediaType]
            : [.malformedJSON, .invalidRequest, .bodyTooLarge, .bodyTimeout, .unsupportedMediaType]
    }
}

package struct Answer: Sendable {
    package let status: Int
    package let description: String
    package let body: OperationBody?
    package let headers: [Header]

    package struct Header: Sendable {
        package let name: String
        package let schema: JSONSchema
        package let description: String
        package let isRequired: Bool

        package static func always(_ name: String, _ schema: JSONSchema, _ description: String) -> Header {
            Header(name: name, schema: schema, description: description, isRequired: true)
        }
        package static func sometimes(_ name: String, _ schema: JSONSchema, _ description: String) -> Header {
            Header(name: name, schema: schema, description: description, isRequired: false)
        }
    }

    package init(_ status: Int, _ description: String, _ body: OperationBody? = nil, headers: [Header] = []) {
        self.status = status
        self.description = description
        self.body = body
        self.headers = headers
    }
}

extension JSONSchema {
    package static let keyID = JSONSchema(.string(Text(pattern: "^[0-9a-f]{16}$"))).example("0123456789abcdef")

    fileprivate var isUUID: Bool {
        if case .string(let text) = kind { text.format == "uuid" } else { false }
    }
}

/// Operations that belong together.
package struct Resource: Sendable {
    package let name: String
    package let summary: String
    package let operations: [Operation]

    package init(_ name: String, _ summary: String, _ operations: [Operation]) {
        self.name = name
        self.summary = summary
        self.operations = operations
    }

    /// Appends the operations that a higher floor has for this resource.
    package func adding(_ more: Operation...) -> Resource { Resource(name, summary, operations + more) }

    /// The name in lower case without blanks, for links.
    package var anchor: String { name.lowercased().replacing(" ", with: "-") }
}

/// One operation of the API and who may use it. A room declares its routes beside the words for them; ``all`` and ``open`` are the table
/// that the documentation and the tests read.
package struct APIRoute: Hashable, Sendable {
    package let method: HTTPRequest.Method
    /// The path with `{name}` for each parameter.
    package let path: String
    /// Any one of these is enough. Empty: open to all, for probes and scrapers.
    package let scopes: [KeyScope]

    /// An operation on no single app needs an administrator's key that is bound to no app.
    package var isAdministrative: Bool { scopes == [.admin] && !isOfApp }
    package let isOfApp: Bool
    /// A device may use it with its credential, for its own installation.
    package let isForDevices: Bool

    /// What the audit trail calls its use; nil: the trail does not know it. Routes that read record it for `tokens=full` alone.
    package let audit: AuditAction?

    package init(
        _ method: HTTPRequest.Method, _ path: String, _ scopes: KeyScope..., forDevices: Bool = false, audit: AuditAction? = nil
    ) {
        self.method = method
        self.path = path
        self.scopes = scopes
        isForDevices = forDevices
        self.audit = audit
        isOfApp = path.contains("{app}")
    }
}

/// Takes a room's handlers, so that a room need not know what runs before them.
package protocol RouteBinder: AnyObject {
    typealias Handler = @Sendable (APICall) async throws -> Response

    func on(_ route: APIRoute, _ handler: @escaping Handler)
}
