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
    /// In the order of the page: what most readers look for comes first.
    package static let resources: [Resource] = [
        .notifications, .notificationReading.adding(.readActivity),
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

    /// By name: the parts of requests and answers, and the problem that every refusal is.
    package static let schemas = JSONSchema.named(
        in: [problem]
            + operations.flatMap { operation in ([operation.request] + operation.answers.map(\.body)).compactMap { $0?.schema } })

    /// The body of every refusal.
    package static let problem = APIError.response.schema

    /// As JSON, a field a line.
    package static let text = node.indented() + "\n"

    static let introduction = """
        Registers devices and accepts push notifications. Bodies are JSON in UTF-8; fields that are not described are refused. Times are RFC 3339 in UTC. \
        Queries are `application/x-www-form-urlencoded` in UTF-8: a blank is `+` or `%20`, a plus `%2B`; in the offset of a time a bare `+` is a plus \
        too. Integers have 64 bits; `1.0` is one. \
        Wherever GET is, HEAD is too. A path answers 405 to a method that it does not take, and 204 to OPTIONS, both with `Allow`. \
        Every error is a problem document (RFC 9457) whose `code` is for programs and whose `retryable` says whether the very same request \
        may succeed later; answers may gain fields, so pass over those you do not know.
        """
}

extension APIRoute {
    /// Open to every client that reaches the port: these routes show no data.
    package static let open = OpenAPIDocument.operations.map(\.route).filter(\.scopes.isEmpty)

    /// Everything that needs a key.
    package static let all = OpenAPIDocument.operations.map(\.route).filter { !$0.scopes.isEmpty }
}
