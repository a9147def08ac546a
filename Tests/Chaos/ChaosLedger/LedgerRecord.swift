package import StrictJSON

/// One line of a ledger. All moments are microseconds of the Unix clock.
package protocol LedgerRecord: Sendable {
    /// Writes one object.
    func write(to writer: inout JSONWriter)
    /// Ignores unknown fields. A missing or wrong field is an error that names it.
    init(from scanner: inout JSONScanner) throws(JSONError)
}

extension LedgerRecord {
    /// One object, without a line feed.
    package func encoded() -> [UInt8] {
        var writer = JSONWriter()
        write(to: &writer)
        return writer.bytes
    }

    /// - Throws: ``LedgerError`` with this name and line number.
    package init(line bytes: [UInt8], of file: String, number: Int) throws(LedgerError) {
        do throws(JSONError) {
            var scanner = JSONScanner(bytes)
            self = try Self(from: &scanner)
            try scanner.finish()
        } catch {
            throw LedgerError(file: file, line: number, error)
        }
    }
}
