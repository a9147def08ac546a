package import StrictJSON

/// A ledger that cannot be read or written. It never shows the content, because a line may hold tokens.
package struct LedgerError: Error, Equatable, CustomStringConvertible {
    package let file: String
    /// 1 for the first line; 0 for the whole file.
    package let line: Int
    package let message: String

    package init(file: String, line: Int = 0, _ message: String) {
        self.file = file
        self.line = line
        self.message = message
    }

    package init(file: String, line: Int, _ error: JSONError) {
        let place = error.field.map { "\($0): " } ?? "column \(error.column): "
        self.init(file: file, line: line, place + error.message)
    }

    package var description: String { line == 0 ? "\(file): \(message)" : "\(file), line \(line): \(message)" }
}
