package import HTTPTypes
package import Hummingbird
package import Logging
import NIOHTTP1
import Observability
import Postgres
import RabbitMQ
package import StrictJSON

/// Counts and logs what fails through the service's own fault: no caller can cause it, and none can mend it.
package struct InternalErrors: Sendable {
    private let count: @Sendable () -> Void
    private let logger: Logger

    /// - Parameter count: Counts one more.
    package init(count: @escaping @Sendable () -> Void, logger: Logger) {
        self.count = count
        self.logger = logger
    }

    /// What the caller is told of an error. Counts and logs the error if it is the service's own fault.
    /// - Parameter message: what failed, for the log.
    package func answer(to error: any Error, _ message: String, route: String? = nil) -> APIError {
        let problem = APIError(cause: error)
        if problem.code == .internalError {
            count()
            var metadata: Logger.Metadata = [LogKey.error: "\(String(describing: error))"]
            if let route { metadata[LogKey.route] = "\(route)" }
            logger.error("\(message)", metadata: metadata)
        }
        return problem
    }
}

/// A refusal, as `application/problem+json` (RFC 9457). Never shows a token, a key or a payload.
package struct APIError: Error, Sendable {
    package let code: ProblemCode
    /// That of the code's kind, except where a layer below refuses a request with one of its own.
    package var status: HTTPResponse.Status
    /// The fault of this request, in words for people.
    package let detail: String
    package let errors: [JSONProblem]
    package let retryAfterSeconds: Int?
    /// The methods that the path takes, if it does not take this one.
    package var allow: String?

    /// - Parameter retryAfterSeconds: Instead of what the code's kind says.
    package init(_ code: ProblemCode, _ detail: String, errors: [JSONProblem] = [], retryAfterSeconds: Int? = nil) {
        let kind = code.kind
        self.code = code
        status = kind.status
        self.detail = detail
        self.errors = errors
        self.retryAfterSeconds = retryAfterSeconds ?? kind.retryAfterSeconds
    }

    /// Whether the very same request may succeed later.
    package var isRetryable: Bool { code.kind.isRetryable }
}

extension APIError {
    package static let notFound = APIError(.notFound, "there is nothing here, or nothing that this key may see")

    static func methodNotAllowed(_ allow: String) -> APIError {
        var error = APIError(.methodNotAllowed, "this path takes \(allow)")
        error.allow = allow
        return error
    }

    package static func bodyTooLarge(_ maximumBytes: Int) -> APIError {
        APIError(.bodyTooLarge, "a request's body may have \(maximumBytes) bytes here")
    }

    package static let malformedHTTP = APIError(
        .httpError, "the bytes are not plainly one HTTP/1.1 request with one valid Host; the connection is closed")

    package static let overloaded = APIError(.overloaded, "more requests are being worked on than can be answered soon")

    package static func invalid(_ problems: [JSONProblem]) -> APIError { APIError(.invalidRequest, "see errors", errors: problems) }

    /// A fault outside the body: in the path, the query or a header.
    package static func invalid(_ place: String, _ code: ProblemCode, _ detail: String) -> APIError {
        APIError(code, "\(place): \(detail)")
    }
}

extension APIError {
    package static let response = ResponseSchema<APIError>.object(
        "Problem",
        [
            .required("type", .text(.string().example("urn:push:problem:invalid_request")), "`urn:push:problem:` and the code.") {
                "urn:push:problem:\($0.code.rawValue)"
            },
            .required("title", .text(.string().example("The request is not valid")), "What kind of thing went wrong, for people.") {
                $0.code.kind.title
            },
            .required("status", .integer(.integer(400...599)), "The HTTP status.") { $0.status.code },
            .required("code", .text(.string().example("invalid_request")), "What went wrong, for programs.") { $0.code.rawValue },
            .required(
                "detail", .text(.string().example("see errors")),
                "What went wrong this time, for people. Never shows a token or a key."
            ) { $0.detail },
            .optional("errors", .array(JSONProblem.response), "Each fault of the body; at most 50.") {
                $0.errors.isEmpty ? nil : $0.errors
            },
            .required("retryable", .retryable, "Whether the very same request may succeed later.") { $0.isRetryable },
        ])

    package func body() -> [UInt8] {
        var writer = JSONWriter()
        Self.response.write(self, &writer)
        return writer.bytes
    }

    package func response() -> Response {
        var headers: HTTPFields = [.contentType: "application/problem+json", .cacheControl: "no-store"]
        if let retryAfterSeconds { headers[.retryAfter] = "\(retryAfterSeconds)" }
        if let allow { headers[.allow] = allow }
        if status == .unauthorized { headers[.wwwAuthenticate] = "Bearer" }
        return Response(status: status, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(bytes: body())))
    }
}

extension JSONProblem {
    /// One entry of `errors`.
    package static let response = ResponseSchema<JSONProblem>.object(
        nil,
        [
            .required(
                "pointer", .text(.string().example("/tokens/0/token")), "Where: a JSON pointer (RFC 6901); empty for the whole body."
            ) { $0.pointer },
            .required("code", .text(.string().example("invalid_token")), "What is wrong, for programs.") { $0.code },
            .required("detail", .text(.string().example("an even number of hex digits")), "What is right, for people.") { $0.detail },
        ])
}

extension ResponseSchema where Value == Bool {
    package static var retryable: ResponseSchema { ResponseSchema(schema: .boolean.example(false)) { $1.value($0) } }
}

/// An error that knows what its caller is told.
package protocol ProblemError: Error {
    var problem: APIError { get }
}

extension APIError {
    /// The error that a caller sees for a ``ProblemError``, or an error of a lower layer. An error that is neither is our fault, and the
    /// answer gives no details.
    init(cause error: any Error) {
        switch error {
        case let error as APIError: self = error
        case let error as any ProblemError: self = error.problem
        case is HTTPParserError: self = .malformedHTTP
        case is RabbitMQError: self = APIError(.brokerUnavailable, "the message broker cannot be asked now")
        case let error as PostgresError where error.isUnavailable:
            self = APIError(.databaseUnavailable, "the database cannot serve now")
        case let error as PostgresError where error.sqlState == .undefinedTable:
            self = APIError(.databaseUnavailable, "the database is not migrated yet", retryAfterSeconds: 5)
        // A shutdown's deadline has passed.
        case is CancellationError: self = APIError(.shuttingDown, "this instance is stopping; another one answers")
        case let error as HTTPError where error.status == .notFound: self = .notFound
        case let error as HTTPError where error.status == .methodNotAllowed: self = .methodNotAllowed(error.headers[.allow] ?? "")
        case let error as HTTPError where error.status.code < 500:
            self = APIError(.httpError, error.body ?? "the request is not valid HTTP here")
            status = error.status
        default: self = APIError(.internalError, "this is our fault and was noted")
        }
    }
}
