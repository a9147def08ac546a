/// The files of one run.
package struct RunFolder: Sendable {
    package let path: String

    package init(_ path: String) { self.path = path.hasSuffix("/") ? String(path.dropLast()) : path }

    package func file(_ name: String) -> String { path + "/" + name }

    package var run: String { file("run.json") }
    package var clients: String { file("clients.ndjson") }
    package var faults: String { file("faults.ndjson") }
    package var devices: String { file("devices.ndjson") }
    package var reported: String { file("reported.ndjson") }
    package var samples: String { file("samples.ndjson") }
    package var shown: String { file("shown.ndjson") }
    /// The simulator's own, see `JournalFileReader` of APNsSimulator.
    package var journal: String { file("journal") }

    package func writeRun(_ record: RunRecord) throws(LedgerError) {
        let writer = try LedgerWriter<RunRecord>(path: run)
        try writer.append(record)
    }

    /// The last whole line of `run.json`.
    package func readRun() throws(LedgerError) -> RunRecord {
        var reader = try LedgerReader<RunRecord>(path: run)
        var last: RunRecord?
        while let record = try reader.next() { last = record }
        guard let last else { throw LedgerError(file: run, "holds nothing") }
        return last
    }
}
