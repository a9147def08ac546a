import StrictJSON
import Synchronization
import SystemIO

/// Appends records to a ledger. Thread-safe; a record is in the file, whole, when ``append(_:)`` returns.
package final class LedgerWriter<Record: LedgerRecord>: Sendable {
    private let path: String
    private let file: Mutex<AppendedFile>

    /// A file of that name loses its content.
    package init(path: String) throws(LedgerError) {
        self.path = path
        do throws(SystemError) {
            file = Mutex(try AppendedFile(replacing: path))
        } catch {
            throw LedgerError(file: path, "cannot be written: \(error)")
        }
    }

    package func append(_ record: Record) throws(LedgerError) { try append(CollectionOfOne(record)) }

    /// All of them with one write.
    package func append(_ records: some Collection<Record>) throws(LedgerError) {
        var lines: [UInt8] = []
        for record in records {
            lines.append(contentsOf: record.encoded())
            lines.append(UInt8(ascii: "\n"))
        }
        let failure = file.withLock { file -> SystemError? in
            do throws(SystemError) {
                try file.append(lines.span)
                return nil
            } catch {
                return error
            }
        }
        if let failure { throw LedgerError(file: path, "cannot be written: \(failure)") }
    }
}
