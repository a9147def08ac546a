import PushModel
import StrictJSON
package import TokenServiceApps
package import TokenServiceRegistry

/// One line of an import, read and checked.
package struct ImportLine: Sendable {
    package enum Content: Sendable {
        case registration(Registration)
        case refused(BulkFault)
        /// A blank line, or the line with which an export ends.
        case nothing
    }

    /// 1 for the first.
    package var number: Int
    /// The bytes that it took in the stream.
    package var bytes: Int
    package var content: Content

    package static let maximumBytes = 65_536

    package init(_ line: LineSplitter.Line, number: Int, app: App) {
        self.number = number
        switch line {
        case .tooLong:
            bytes = 0
            content = .refused(
                BulkFault(id: nil, code: "line_too_long", detail: "a line may have \(Self.maximumBytes) bytes", isRetryable: false))
        case .text(let text):
            bytes = text.count
            content = Self.isBlank(text) ? .nothing : Self.content(text, app: app)
        }
    }

    private static func content(_ text: [UInt8], app: App) -> Content {
        let value: JSONValue
        do {
            value = try JSONValue.parse(text, maximumBytes: maximumBytes)
        } catch {
            return .refused(
                BulkFault(id: nil, code: "malformed_json", detail: "column \(error.column): \(error.message)", isRetryable: false))
        }
        // `done` is no field of a registration: an export's last line.
        if value["done"]?.boolValue == true { return .nothing }
        var reader = JSONObjectReader(value, problems: JSONProblems(maximum: JSONProblems.maximumOfItem))
        guard let registration = Registration(bulkItem: &reader, app: app) else {
            return .refused(BulkFault(id: PushID(stated: value), problems: reader.problems.list))
        }
        return .registration(registration)
    }

    private static func isBlank(_ text: [UInt8]) -> Bool {
        text.allSatisfy { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\t") || $0 == UInt8(ascii: "\r") }
    }
}
