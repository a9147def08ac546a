package import StrictJSON

extension PushAPI {
    /// A refusal, as the service explains it in a problem document (RFC 9457).
    public struct Problem: Sendable, Hashable, CustomStringConvertible {
        /// A fault in the body of the call.
        public struct Fault: Sendable, Hashable {
            /// A JSON pointer (RFC 6901) into the body.
            public let pointer: String
            /// For programs.
            public let code: String
            /// For people.
            public let detail: String
        }

        /// Method and path; nil for an item of a batch.
        public let call: String?
        public let status: Int
        /// For programs, as `owner_mismatch`; nil if the answer is no problem document, as one of a proxy.
        public let code: String?
        /// For people. Never shows a token or a key.
        public let detail: String?
        public let errors: [Fault]
        /// Whether the same call may succeed later.
        public let isTemporary: Bool
        /// How long the service asks to wait.
        public let retryAfter: Duration?

        package init(status: Int, _ document: JSONValue?, call: String? = nil, retryAfter: Duration? = nil) {
            self.call = call
            self.status = status
            code = document?["code"]?.stringValue
            detail = document?["detail"]?.stringValue ?? document?["title"]?.stringValue
            errors = (document?["errors"]?.arrayValue ?? []).map { fault in
                Fault(
                    pointer: fault["pointer"]?.stringValue ?? "?", code: fault["code"]?.stringValue ?? "?",
                    detail: fault["detail"]?.stringValue ?? "?")
            }
            isTemporary = status == 429 || status >= 500 || document?["retryable"]?.boolValue == true
            self.retryAfter = retryAfter
        }

        public var description: String { call.map { "\($0) was refused: \(explanation)" } ?? explanation }

        /// The document in one line.
        package var explanation: String {
            guard let code else { return "status \(status)" }
            let faults = errors.map { "\($0.pointer): \($0.detail)" }
            return (["\(status) \(code)", detail ?? "no explanation"] + faults).joined(separator: "; ")
        }
    }
}
