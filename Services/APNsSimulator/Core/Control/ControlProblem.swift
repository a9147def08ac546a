import HTTPTypes
import Hummingbird
import NIOHTTP1
import StrictJSON

/// A refusal of the control API, as `application/problem+json` (RFC 9457).
struct ControlProblem: Error {
    let status: HTTPResponse.Status
    /// The code for programs, in `snake_case`.
    let code: String
    let title: String
    /// The fault of this request, in words for people.
    let detail: String
    var errors: [JSONProblem] = []
    /// The methods that the path takes, if it does not take this one.
    private var allow: String?

    init(_ status: HTTPResponse.Status, _ code: String, _ title: String, _ detail: String, errors: [JSONProblem] = []) {
        self.status = status
        self.code = code
        self.title = title
        self.detail = detail
        self.errors = errors
    }

    static func invalid(_ problems: [JSONProblem]) -> ControlProblem {
        ControlProblem(.badRequest, "invalid_request", "The request is not valid", "see errors", errors: problems)
    }

    static func invalidQuery(_ name: String, _ detail: String) -> ControlProblem {
        ControlProblem(.badRequest, "invalid_query", "The request is not valid", "\(name): \(detail)")
    }

    static let unknownDevice = ControlProblem(
        .notFound, "unknown_device", "Unknown device", "PUT /v1/devices/{token} installs an app on a device")

    /// Makes the problem of any error of a handler.
    init(cause: any Error) {
        switch cause {
        case let problem as ControlProblem: self = problem
        case let error as SimulatorError where error.code == .scenario:
            self.init(.badRequest, "invalid_scenario", "The request is not valid", error.description)
        case let error as SimulatorError: self.init(.badRequest, "invalid_token", "The request is not valid", error.description)
        case is HTTPParserError: self.init(.badRequest, "http_error", "The request is not valid", "this is no HTTP/1.1")
        case let error as HTTPError where error.status == .methodNotAllowed:
            let allow = error.headers[.allow] ?? ""
            self.init(.methodNotAllowed, "method_not_allowed", "Method not allowed", "this path takes \(allow)")
            self.allow = allow
        case let error as any HTTPResponseError:
            self.init(error.status, error.status == .notFound ? "not_found" : "http_error", error.status.reasonPhrase, "see the README")
        default: self.init(.internalServerError, "internal_error", "Internal error", "see the log")
        }
    }

    var response: Response {
        var response = ControlAnswer.response(status, contentType: "application/problem+json") { writer in
            writer.object { object in
                object.field("type", "urn:push:problem:\(code)")
                object.field("title", title)
                object.field("status", status.code)
                object.field("code", code)
                object.field("detail", detail)
                if !errors.isEmpty { object.array("errors", writeErrors) }
                object.field("retryable", false)
            }
        }
        if let allow { response.headers[.allow] = allow }
        return response
    }

    private func writeErrors(_ array: inout JSONWriter) {
        for error in errors {
            array.object { entry in
                entry.field("pointer", error.pointer)
                entry.field("code", error.code)
                entry.field("detail", error.detail)
            }
        }
    }
}
