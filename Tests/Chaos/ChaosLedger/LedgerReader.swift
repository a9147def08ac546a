import SystemIO

/// Reads a ledger from its beginning, line by line. Holds about a mebibyte, however long the file is.
package struct LedgerReader<Record: LedgerRecord> {
    private static var pieceBytes: Int { 1 << 20 }

    private let file: InputFile
    private let path: String
    private var buffer: [UInt8] = []
    private var position = 0
    private var isAtEnd = false
    /// The line of the last record; 1 for the first.
    package private(set) var line = 0
    /// The file ends inside a line, because its writer was killed. The reader leaves that line out.
    package private(set) var hasTornLine = false

    package init(path: String) throws(LedgerError) {
        self.path = path
        do throws(SystemError) {
            file = try InputFile(path: path)
        } catch {
            throw LedgerError(file: path, "cannot be read: \(error)")
        }
    }

    /// Returns nil at the end. Skips blank lines.
    package mutating func next() throws(LedgerError) -> Record? {
        while let bytes = try nextLine() {
            line += 1
            if !bytes.isEmpty { return try Record(line: bytes, of: path, number: line) }
        }
        return nil
    }

    private mutating func nextLine() throws(LedgerError) -> [UInt8]? {
        var searched = position
        while true {
            if let end = buffer[searched...].firstIndex(of: UInt8(ascii: "\n")) {
                defer { position = end + 1 }
                return Array(buffer[position..<end])
            }
            guard !isAtEnd else {
                if position < buffer.count { hasTornLine = true }
                return nil
            }
            buffer.removeSubrange(..<position)
            position = 0
            searched = buffer.count
            try fill()
        }
    }

    private mutating func fill() throws(LedgerError) {
        do throws(SystemError) {
            isAtEnd = try file.read(Self.pieceBytes, into: &buffer) == 0
        } catch {
            throw LedgerError(file: path, line: line, "cannot be read: \(error)")
        }
    }
}
