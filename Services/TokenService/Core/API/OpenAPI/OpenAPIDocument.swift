/// The description of the API: what `token-service openapi`, `/openapi.yaml` and `/docs` show.
///
/// It is data, written down once per resource. Tests hold it against the router, the table of routes, the problems that the code
/// throws, and every answer that any test receives.
package enum OpenAPIDocument {
    /// In the order of the page.
    package static let resources: [Resource] = [
        .apps, .keys, .installations, .users, .tokens, .bulk, .quarantine, .deadLetters, .privacy, .notifications, .notificationReading,
        .holds, .webhooks, .operations,
    ]

    package static let operations: [Operation] = resources.flatMap(\.operations)

    package static let schemas: [String: JSONSchema] = {
        var schemas: [String: JSONSchema] = ["Problem": problem]
        for resource in resources {
            for (name, schema) in resource.schemas { schemas[name] = schema }
        }
        return schemas
    }()

    /// As YAML.
    package static let text = YAMLWriter.text(node)

    static let introduction = """
        Registers devices and accepts push notifications. Bodies are JSON in UTF-8; fields that are not described are refused. Times are RFC 3339 in UTC. \
        Queries are `application/x-www-form-urlencoded` in UTF-8: a blank is `+` or `%20`, a plus `%2B`; in the offset of a time a bare `+` is a plus \
        too. Integers have 64 bits; `1.0` is one. \
        Wherever GET is, HEAD is too. A path answers 405 to a method that it does not take, and 204 to OPTIONS, both with `Allow`. \
        Every error is a problem document (RFC 9457) whose `code` is for programs and whose `retryable` says whether the very same request \
        may succeed later; answers may gain fields, so pass over those you do not know.
        """

    static let problem = JSONSchema.answer(
        .required("type", .string().example("urn:push:problem:invalid_request"), "`urn:push:problem:` and the code."),
        .required("title", .string().example("The request is not valid"), "What kind of thing went wrong, for people."),
        .required("status", .integer(400...599), "The HTTP status."),
        .required("code", .string().example("invalid_request"), "What went wrong, for programs."),
        .required("detail", .string().example("see errors"), "What went wrong this time, for people. Never shows a token or a key."),
        .optional("errors", .array(fault), "Each fault of the body; at most 50."),
        .required("retryable", .boolean.example(false), "Whether the very same request may succeed later."))

    static let fault = JSONSchema.answer(
        .required("pointer", .string().example("/tokens/0/token"), "Where: a JSON pointer (RFC 6901); empty for the whole body."),
        .required("code", .string().example("invalid_token"), "What is wrong, for programs."),
        .required("detail", .string().example("an even number of hex digits"), "What is right, for people."))
}
