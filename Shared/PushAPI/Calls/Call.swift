extension PushAPI {
    public enum Method: String, Sendable {
        case get = "GET"
        case post = "POST"
        case put = "PUT"
        case patch = "PATCH"
        case delete = "DELETE"
    }

    /// One request, for ``PushAPI/call(_:)``.
    public struct Call: Sendable, CustomStringConvertible {
        public var method: Method
        /// Percent-encoded, from `/v1` on.
        public var path: String
        /// A name whose value is nil is left out.
        public var query: [(String, String?)]
        /// Beside `Authorization` and `Content-Type`.
        public var headers: [(String, String)] = []
        /// The body, if the call has one.
        public var json: [UInt8]?
        /// Whether the call may reach the service twice. By itself every method but POST, and a POST that has an idempotency key.
        public var isRepeatable: Bool
        /// Stands in errors for a path that names what must stay out of logs. Nil: the path itself.
        var shownPath: String?

        public init(
            _ method: Method, _ path: String, query: [(String, String?)] = [], json: [UInt8]? = nil,
            idempotencyKey: String? = nil
        ) {
            self.method = method
            self.path = path
            self.query = query
            self.json = json
            isRepeatable = method != .post || idempotencyKey != nil
            if let idempotencyKey { headers.append(("idempotency-key", idempotencyKey)) }
        }

        /// Method and path.
        public var description: String { "\(method.rawValue) \(shownPath ?? path)" }

        /// The path with the query.
        var target: String {
            let words = query.compactMap { name, value in value.map { "\(name)=\($0.percentEncoded)" } }
            return words.isEmpty ? path : "\(path)\(path.contains("?") ? "&" : "?")\(words.joined(separator: "&"))"
        }
    }

    /// What the service answered, of whatever status.
    public struct Answer: Sendable {
        public let status: Int
        /// Names in lower case.
        public let headers: [String: String]
        public let body: [UInt8]
        /// Method and path of the call.
        let call: String

        /// How long the service asks to wait.
        public var retryAfter: Duration? { headers["retry-after"].flatMap { Int64($0) }.map { .seconds($0) } }

        /// - Throws: ``PushAPIError/refused(_:)`` unless the status is 2xx.
        package func accepted() throws(PushAPIError) -> Answer {
            guard !(200..<300).contains(status) else { return self }
            throw .refused(Problem(status: status, try? json(), call: call, retryAfter: retryAfter))
        }
    }
}

extension String {
    /// The text as one part of a path or a query: all but the unreserved characters of RFC 3986 section 2.3 as `%XX`.
    package var percentEncoded: String {
        var text = ""
        for byte in utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"),
                UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"), UInt8(ascii: "~"):
                text.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                let digits = String(byte, radix: 16, uppercase: true)
                text += digits.count == 1 ? "%0\(digits)" : "%\(digits)"
            }
        }
        return text
    }
}
