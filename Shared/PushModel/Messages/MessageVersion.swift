package import StrictJSON

/// The one rule of versions: a reader takes its own version and every earlier one, and refuses a greater one by its number, for any content
/// of its other fields.
enum MessageVersion {
    /// The greatest number that is a version, so that a broken message is not taken for a newer one.
    static let limit = 1_000_000

    static func check(_ version: Int, atMost current: Int) throws(MessageError) {
        guard (1...limit).contains(version) else { throw MessageError(.invalidField("v"), "expected a version from 1") }
        guard version <= current else {
            throw MessageError(.unsupportedVersion(version), "this program reads versions up to \(current)")
        }
    }

    /// The error for a message that cannot be read as ours: it has a greater version, whose fields may have any form, or is broken.
    static func explain(_ error: JSONError, _ bytes: [UInt8], version path: [String], atMost current: Int) -> MessageError {
        guard let parsed = try? JSONValue.parse(bytes),
            let version = path.reduce(parsed, { $0?[$1] })?.integerValue, version > Int64(current), version <= Int64(limit)
        else { return MessageError(error) }
        return MessageError(.unsupportedVersion(Int(version)), "this program reads versions up to \(current)")
    }
}

/// Why bytes are not a message of ours. Names the field, never its content: a message holds tokens and payloads.
package struct MessageError: Error, Equatable, Sendable, CustomStringConvertible {
    package enum Code: Equatable, Sendable {
        /// The bytes are not the encoding at all, or cut short. The same bytes will never be accepted.
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
