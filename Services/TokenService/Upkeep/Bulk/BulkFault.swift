package import PushModel
package import StrictJSON
import TokenServiceKit

/// Why one item among many was not registered.
package struct BulkFault: Sendable {
    package var id: PushID?
    /// As in a problem document.
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
