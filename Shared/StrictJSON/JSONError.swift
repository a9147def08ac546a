/// Bytes that are not the JSON we accept, and their place. Says what was expected, never the found text: a body may hold secrets.
package struct JSONError: Error, Equatable, Sendable, CustomStringConvertible {
    /// Bytes before the fault.
    package let offset: Int
    /// 1 for the first line; lines end with a line feed.
    package let line: Int
    /// 1 for the first column, in bytes.
    package let column: Int
    package let message: String
    /// The field whose value was wrong, if the text itself was good JSON.
    package let field: String?

    package init(at offset: Int, in source: [UInt8], _ message: String, field: String? = nil) {
        var line = 1
        var lineStart = 0
        for index in 0..<min(offset, source.count) where source[index] == UInt8(ascii: "\n") {
            line += 1
            lineStart = index + 1
        }
        self.offset = offset
        self.line = line
        self.column = offset - lineStart + 1
        self.message = message
        self.field = field
    }

    package var description: String { "line \(line), column \(column): \(message)" }
}
