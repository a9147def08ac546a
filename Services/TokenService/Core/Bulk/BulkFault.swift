package import PushModel
package import StrictJSON

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

    init(id: PushID?, cause: any Error) { self.init(id: id, APIError(cause: cause)) }

    private init(id: PushID?, _ error: APIError) {
        self.init(id: id, code: error.code, detail: error.detail, isRetryable: error.isRetryable)
        errors = error.errors
    }

    /// Writes the value of an `error` field.
    func write(to writer: inout JSONWriter) {
        writer.object { object in
            object.field("code", code)
            object.field("detail", detail)
            if !errors.isEmpty {
                object.array("errors") { array in
                    for error in errors { error.write(to: &array) }
                }
            }
            object.field("retryable", isRetryable)
        }
    }
}
