import HTTPTypes
import Observability
package import TokenServiceApps
import TokenServiceEvents
package import TokenServiceKit
import TokenServiceOutcomes
import TokenServiceRegistry
import TokenServiceSending
import TokenServiceUpkeep

/// The description of the API: what `token-service openapi`, `/openapi.json` and `/docs` show.
///
/// It is data, written down once per resource. Tests hold it against the router, the table of routes, the problems that the code
/// throws, and every answer that any test receives.
package enum OpenAPIDocument {
    /// The resources in the order of the page: what most readers look for comes first.
    package static let resources: [Resource] = [
        .notifications, .notificationReading.adding(.readTraffic),
        .installations.adding(.reportReceipts, .reportActivity, .endActivity),
        .users, .activities, .channels, .tokens, .bulk, .apps, .keys, .holds, .webhooks, .quarantine, .deadLetters, .privacy, .audit,
        .process,
    ]

    package static let operations: [Operation] = resources.flatMap(\.operations)

    /// The names of the parameters that the query of a route may have.
    static func queryNames(of route: APIRoute) -> Set<String> {
        let parameters = operations.first { $0.route == route }?.parameters ?? []
        return Set(parameters.filter { $0.place == .query }.map(\.name))
    }

    /// The parts of requests and answers, and the problem that every refusal is, by name.
    package static let schemas = JSONSchema.named(
        in: [problem]
            + operations.flatMap { operation in ([operation.request] + operation.answers.map(\.body)).compactMap { $0?.schema } })

    /// The body of every refusal.
    package static let problem = APIError.response.schema

    /// The document as JSON, a field a line.
    package static let text = node.indented() + "\n"

    static let introduction = """
        Registers devices and accepts push notifications. Bodies are JSON in UTF-8; fields that are not described are refused. Times are \
        RFC 3339 in UTC. Queries are `application/x-www-form-urlencoded` in UTF-8: a blank is `+` or `%20`, a plus `%2B`; in the offset of \
        a time a bare `+` is a plus too. Integers have 64 bits; `1.0` is one. Wherever GET is, HEAD is too. A path answers 405 to a method \
        that it does not take, and 204 to OPTIONS, both with `Allow`. Every error is a problem document (RFC 9457) whose `code` is for \
        programs and whose `retryable` says whether the very same request may succeed later; answers may gain fields, so pass over those \
        you do not know.
        """
}

extension APIRoute {
    /// Open to every client that reaches the port: these routes show no data.
    package static let open = OpenAPIDocument.operations.map(\.route).filter(\.scopes.isEmpty)

    /// Everything that needs a key.
    package static let all = OpenAPIDocument.operations.map(\.route).filter { !$0.scopes.isEmpty }
}

extension OpenAPIDocument {
    /// The whole document.
    package static let node: DocumentNode = .map([
        "openapi": "3.1.0",
        "info": .map([
            "title": "token-service", "version": .text(BuildVersion.current.number), "description": .text(introduction),
        ]),
        "tags": .list(resources.map { .map(["name": .text($0.name), "description": .text($0.summary)]) }),
        "security": .list([.map(["key": .list([])])]),
        "paths": paths,
        "components": .map([
            "securitySchemes": .map([
                "key": .map(["type": "http", "scheme": "bearer", "description": "An API key: psh_, 16 hex digits, _, 48 hex digits."])
            ]),
            "responses": .map(ProblemCode.allCases.map { DocumentField($0.rawValue, response([$0])) }),
            "headers": .map(
                rateLimits.map { header in
                    DocumentField(header.name, .map(["description": .text(header.description), "schema": header.schema.node]))
                }),
            "schemas": .map(schemas.sorted { $0.key < $1.key }.map { DocumentField($0.key, $0.value.node) }),
        ]),
    ])

    private static var paths: DocumentNode {
        var order: [String] = []
        var methods: [String: [DocumentField]] = [:]
        for resource in resources {
            for operation in resource.operations {
                if methods[operation.route.path] == nil { order.append(operation.route.path) }
                methods[operation.route.path, default: []].append(
                    DocumentField(operation.route.method.rawValue.lowercased(), node(operation, of: resource)))
            }
        }
        return .map(order.map { DocumentField($0, .map(methods[$0] ?? [])) })
    }

    private static func node(_ operation: Operation, of resource: Resource) -> DocumentNode {
        let parameters = operation.pathParameters + operation.parameters
        return .map([
            "operationId": .text(operation.id), "tags": .texts([resource.name]), "summary": .text(operation.summary),
            "description": .text(([operation.details] + [operation.scopeSentence]).filter { !$0.isEmpty }.joined(separator: "\n\n")),
            "security": operation.isOpen ? .list([]) : nil,
            "parameters": parameters.isEmpty ? nil : .list(parameters.map(node)),
            "requestBody": operation.request.map { body in
                .map([
                    "required": .boolean(body.isRequired), "description": body.description.map(DocumentNode.text), "content": content(body),
                ])
            },
            "responses": .map(
                operation.answers.map { DocumentField("\($0.status)", node($0, isLimited: !operation.isOpen)) } + problems(of: operation)),
        ])
    }

    private static func node(_ parameter: Parameter) -> DocumentNode {
        .map([
            "name": .text(parameter.name), "in": .text(parameter.place.rawValue), "required": parameter.isRequired ? true : nil,
            "description": .text(parameter.description), "schema": parameter.schema.node,
        ])
    }

    private static func node(_ answer: Answer, isLimited: Bool) -> DocumentNode {
        let own = answer.headers.map { header in
            DocumentField(
                header.name,
                .map([
                    "description": .text(header.description), "required": header.isRequired ? true : nil, "schema": header.schema.node,
                ]))
        }
        let headers = own + (isLimited ? rateLimitReferences : [])
        return .map([
            "description": .text(answer.description), "headers": headers.isEmpty ? nil : .map(headers),
            "content": answer.body.map(content),
        ])
    }

    /// The fields on every answer to a key that has a rate limit.
    private static let rateLimits: [Answer.Header] = [
        .sometimes("RateLimit-Limit", .count, "Requests per second that the key may make of each instance."),
        .sometimes("RateLimit-Remaining", .count, "How many of them are left at this moment."),
        .sometimes("RateLimit-Reset", .count, "Seconds until all are there again."),
    ]

    private static let rateLimitReferences = rateLimits.map { header in
        DocumentField(header.name, .map(["$ref": .text("#/components/headers/\(header.name)")]))
    }

    private static func content(_ body: OperationBody) -> DocumentNode {
        .map(
            body.mediaTypes.map { type in
                DocumentField(
                    type,
                    .map([
                        "schema": body.schema.node,
                        // An example of lines would have to be a text, which the schema of one line does not describe.
                        "example": type.hasSuffix("json") && !body.isLines ? body.schema.example : nil,
                    ]))
            })
    }

    // MARK: Problems

    /// One answer per status; several codes of one status share it.
    private static func problems(of operation: Operation) -> [DocumentField] {
        Dictionary(grouping: operation.problems, by: \.kind.status.code).sorted { $0.key < $1.key }.map { status, codes in
            let shared = codes.count == 1 ? codes.first : nil
            return DocumentField(
                "\(status)", shared.map { .map(["$ref": .text("#/components/responses/\($0.rawValue)")]) } ?? response(codes))
        }
    }

    private static func response(_ codes: [ProblemCode]) -> DocumentNode {
        .map([
            "description": .text(codes.map { "`\($0.rawValue)`: \($0.kind.when)" }.joined(separator: "\n\n")),
            "headers": headers(of: codes),
            "content": .map([
                "application/problem+json": .map([
                    // One schema for all: generators make a class of each, and an enumeration breaks older clients when a code is added.
                    "schema": problem.node
                ])
            ]),
        ])
    }

    private static func headers(of codes: [ProblemCode]) -> DocumentNode? {
        guard codes.contains(where: { $0.kind.retryAfterSeconds != nil }) else { return nil }
        let wait = DocumentField(
            "Retry-After", .map(["description": "Seconds to wait before the same request.", "schema": JSONSchema.count.node]))
        return .map([wait] + (codes.contains(.rateLimited) ? rateLimitReferences : []))
    }
}

extension Operation {
    /// Who may call it.
    package var scopeSentence: String {
        if isOpen { return "Needs no key." }
        var needed = "Scope: \(route.scopes.map(\.rawValue).joined(separator: " or "))."
        if route.isForDevices { needed += " Or a device credential of this installation." }
        if route.isAdministrative { needed += " Needs a key that is bound to no app." }
        guard let action = route.audit else { return needed }
        return needed + " The audit trail records it as `\(action.rawValue)`\(action == .tokensRead ? " if `tokens` is `full`." : ".")"
    }
}
