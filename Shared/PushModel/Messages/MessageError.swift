package import StrictJSON

/// Why bytes are not a message of ours. Names the field, never its content: a message holds tokens and payloads.
package struct MessageError: Error, Equatable, Sendable, CustomStringConvertible {
    package enum Code: Equatable, Sendable {
        /// Not the encoding at all, or cut short. The same bytes will never be accepted.
        case malformed
        /// A newer program wrote it; one that knows this version may read it.
        case unsupportedVersion(Int)
        /// A field is missing or has a forbidden value.
        case invalidField(String)
    }

    package let code: Code
    package let detail: String

    package init(_ code: Code, _ detail: String) {
        self.code = code
        self.detail = detail
    }

    package init(_ error: JSONError) {
        self.init(error.field.map(Code.invalidField) ?? .malformed, error.description)
    }

    package var description: String {
        switch code {
        case .malformed: "malformed message: \(detail)"
        case .unsupportedVersion(let version): "message of version \(version): \(detail)"
        case .invalidField(let name): "invalid field \(name): \(detail)"
        }
    }
}
