package import HTTPTypes
import Hummingbird
package import StrictJSON

/// A refusal, as `application/problem+json` (RFC 9457). Never shows a token, a key or a payload.
package struct APIError: Error, Sendable {
    package var status: HTTPResponse.Status
    /// For programs, `snake_case`.
    package var code: String
    /// For people: the kind of the fault.
    package var title: String
    /// For people: the fault of this request.
    package var detail: String
    package var errors: [JSONProblem] = []
    /// Whether the very same request may succeed later.
    package var isRetryable = false
    package var retryAfterSeconds: Int?
    /// The methods that the path takes, if it does not take this one.
    package var allow: String?

    package init(_ status: HTTPResponse.Status, _ code: String, _ title: String, _ detail: String, errors: [JSONProblem] = []) {
        self.status = status
        self.code = code
        self.title = title
        self.detail = detail
        self.errors = errors
    }

    package static func unavailable(_ code: String, _ detail: String, retryAfterSeconds: Int) -> APIError {
        var error = APIError(.serviceUnavailable, code, "Temporarily unavailable", detail)
        error.isRetryable = true
        error.retryAfterSeconds = retryAfterSeconds
        return error
    }
}

extension APIError {
    static let unauthenticated = APIError(
        .unauthorized, "unauthenticated", "No valid API key", "send a live key as Authorization: Bearer psh_…")
    static let credentialExpired = APIError(
        .unauthorized, "credential_expired", "The device credential has expired", "fetch a new one through the app's backend")
    static let credentialRevoked = APIError(
        .forbidden, "credential_revoked", "The device credential is over",
        "another user signed in, or this one was signed out, since it was made; nothing was changed")
    static let notFound = APIError(.notFound, "not_found", "Not found", "there is nothing here, or nothing that this key may see")

    static func methodNotAllowed(_ allow: String) -> APIError {
        var error = APIError(.methodNotAllowed, "method_not_allowed", "Method not allowed", "this path takes \(allow)")
        error.allow = allow
        return error
    }

    static func bodyTooLarge(_ maximumBytes: Int) -> APIError {
        APIError(
            HTTPResponse.Status(code: 413, reasonPhrase: "Content Too Large"), "body_too_large", "Body too large",
            "a request's body may have \(maximumBytes) bytes here")
    }

    static let headersTooLarge = APIError(
        HTTPResponse.Status(code: 431, reasonPhrase: "Request Header Fields Too Large"), "headers_too_large", "Header fields too large",
        """
        a request may have \(RequestLimits.headerFields) header fields of \(RequestLimits.headerFieldBytes) bytes, all together \
        \(RequestLimits.headerListBytes) bytes
        """)

    static let malformedHTTP = APIError(
        .badRequest, "http_error", "The request is not valid",
        "the bytes are not plainly one HTTP/1.1 request with one valid Host; the connection is closed")

    static func rateLimited(_ quota: TokenBucket.Quota) -> APIError {
        var error = APIError(
            .tooManyRequests, "rate_limited", "Too many requests",
            "this key may make \(quota.limit) requests per second of each instance of the service")
        error.isRetryable = true
        error.retryAfterSeconds = quota.retryAfterSeconds
        return error
    }

    /// - Parameter reason: What the caller has its share of.
    static func concurrencyLimited(_ reason: LoadShedding.Reason) -> APIError {
        var error = APIError(
            .tooManyRequests, "concurrency_limited", "Too many requests at once",
            "this key, device or app has as many \(reason.plural) as one may have in each instance of the service")
        error.isRetryable = true
        error.retryAfterSeconds = 1
        return error
    }

    /// The caller has used up what is its own; others are still served.
    var isOfCaller: Bool { status == .tooManyRequests }

    static let overloaded = unavailable("overloaded", "more requests are being worked on than can be answered soon", retryAfterSeconds: 1)

    static func forbidden(_ scopes: [Scope]) -> APIError {
        let needed = scopes.map(\.rawValue).joined(separator: " or ")
        return APIError(.forbidden, "forbidden", "Not allowed with this key", "this needs the scope \(needed)")
    }

    static let laneNotAllowed = APIError(
        .forbidden, "lane_not_allowed", "The lane is not for this key",
        "a faster lane than the target's own needs the scope admin; leave lane out, or choose a slower one")

    /// - Parameter ids: Of the user's activities of that type.
    static func activityNotSingle(_ ids: [String]) -> APIError {
        APIError(
            .conflict, "activity_not_single", "Not one Live Activity",
            ids.isEmpty
                ? "the user has no Live Activity of this type that is not over; nothing was accepted"
                : "the user has several Live Activities of this type: \(ids.joined(separator: ", ")). Name one in to, as activity beside user"
        )
    }

    static let channelDiffers = APIError(
        .conflict, "channel_differs", "The channel exists",
        "the name has a channel of another environment, storage or id, or the id has another name; nothing was changed")

    static func channelInUse(isFollowed: Bool) -> APIError {
        APIError(
            .conflict, "channel_in_use", "The channel is in use",
            "\(isFollowed ? "Live Activities follow it" : "a broadcast is on its way"); "
                + "force=true deletes it all the same. Nothing was changed")
    }

    static var channelDeleting: APIError {
        var error = APIError(
            .conflict, "channel_deleting", "The channel is being deleted", "Apple has not deleted the channel of this name yet")
        error.isRetryable = true
        error.retryAfterSeconds = 1
        return error
    }

    static let channelLost = APIError(
        .conflict, "channel_lost", "The channel is lost", "Apple does not have it any more; delete it, then create it again")

    static func channelNotOpen(_ state: BroadcastChannel.State) -> APIError {
        APIError(
            .conflict, "channel_not_open", "The channel is not open", "it is \(state.rawValue): no push can reach it. Nothing was sent")
    }

    static let channelLimit = APIError(
        .conflict, "channel_limit", "Too many channels",
        "an app may have \(ChannelStore.maximumInScope) channels in an environment; delete some first")

    /// - Parameter reason: Apple's own.
    static func channelRefused(_ reason: String?) -> APIError {
        guard reason != ChannelRefusal.limitReached else { return channelLimit }
        return APIError(.conflict, "channel_refused", "Apple refused the channel", "Apple's reason: \(reason ?? "none")")
    }

    static func invalid(_ problems: [JSONProblem]) -> APIError {
        APIError(.badRequest, "invalid_request", "The request is not valid", "see errors", errors: problems)
    }

    /// A fault outside the body: in the path, the query or a header.
    static func invalid(_ place: String, _ code: String, _ detail: String) -> APIError {
        APIError(.badRequest, code, "The request is not valid", "\(place): \(detail)")
    }
}

extension APIError {
    static let response = ResponseSchema<APIError>.object(
        "Problem",
        [
            .required("type", .text(.string().example("urn:push:problem:invalid_request")), "`urn:push:problem:` and the code.") {
                "urn:push:problem:\($0.code)"
            },
            .required("title", .text(.string().example("The request is not valid")), "What kind of thing went wrong, for people.") {
                $0.title
            },
            .required("status", .integer(.integer(400...599)), "The HTTP status.") { $0.status.code },
            .required("code", .text(.string().example("invalid_request")), "What went wrong, for programs.") { $0.code },
            .required(
                "detail", .text(.string().example("see errors")),
                "What went wrong this time, for people. Never shows a token or a key."
            ) { $0.detail },
            .optional("errors", .array(JSONProblem.response), "Each fault of the body; at most 50.") {
                $0.errors.isEmpty ? nil : $0.errors
            },
            .required("retryable", .retryable, "Whether the very same request may succeed later.") { $0.isRetryable },
        ])

    func body() -> [UInt8] {
        var writer = JSONWriter()
        Self.response.write(self, &writer)
        return writer.bytes
    }

    func response() -> Response {
        var headers: HTTPFields = [.contentType: "application/problem+json", .cacheControl: "no-store"]
        if let retryAfterSeconds { headers[.retryAfter] = "\(retryAfterSeconds)" }
        if let allow { headers[.allow] = allow }
        if status == .unauthorized { headers[.wwwAuthenticate] = "Bearer" }
        return Response(status: status, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(bytes: body())))
    }
}

extension JSONProblem {
    /// One entry of `errors`.
    static let response = ResponseSchema<JSONProblem>.object(
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
    static var retryable: ResponseSchema { ResponseSchema(schema: .boolean.example(false)) { $1.value($0) } }
}

extension LoadShedding.Reason {
    /// What a caller has too many of.
    fileprivate var plural: String {
        switch self {
        case .requests: "requests in progress"
        case .streams: "imports and exports under way"
        case .uploads: "uploads under way"
        case .bodies: "bytes of large bodies in memory"
        }
    }
}
