import ChaosLedger
import FoundationEssentials
import PushModel
import Testing

@Suite("Ledgers come back as they were written, and say where they are wrong", .timeLimit(.minutes(5)))
struct LedgerTests {
    private func withFile(_ body: (String) throws -> Void) throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "ledger-" + PushID.random().description)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { _ = try? FileManager.default.removeItem(at: folder) }
        try body(folder.appending(path: "ledger").path(percentEncoded: false))
    }

    private func lines<Record: LedgerRecord>(of path: String, as type: Record.Type) throws -> (records: [Record], isTorn: Bool) {
        var reader = try LedgerReader<Record>(path: path)
        var records: [Record] = []
        while let record = try reader.next() { records.append(record) }
        return (records, reader.hasTornLine)
    }

    private func roundTrip<Record: LedgerRecord & Equatable>(_ records: [Record]) throws {
        try withFile { path in
            let writer = try LedgerWriter<Record>(path: path)
            for record in records { try writer.append(record) }
            let read = try lines(of: path, as: Record.self)
            #expect(read.records == records)
            #expect(!read.isTorn)
        }
    }

    @Test("Every kind of record comes back as it was written") func everyKindComesBack() throws {
        try roundTrip(Samples.clients)
        try roundTrip(Samples.faults)
        try roundTrip([DeviceRecord(token: Samples.token, event: .uninstall, at: 7)])
        try roundTrip(Samples.shown)
        try roundTrip(Samples.samples)
        try roundTrip(Samples.reported)
        try roundTrip([Samples.run])
    }

    @Test("The reader leaves out a line that was cut off at the end, and reports it") func tornLine() throws {
        try withFile { path in
            let whole = DeviceRecord(token: Samples.token, event: .uninstall, at: 7)
            let bytes = whole.encoded() + [UInt8(ascii: "\n")]
            for cut in 1..<bytes.count {
                try Data(bytes + bytes[..<cut]).write(to: URL(filePath: path))
                let read = try lines(of: path, as: DeviceRecord.self)
                #expect(read.records == [whole])
                #expect(read.isTorn)
            }
        }
    }

    @Test(
        "An error names the file, the line and the field",
        arguments: [
            (#"{"token":"00aa","event":"uninstall"}"#, "at: missing"),
            (#"{"token":"00aa","event":"fly","at":1}"#, "event: not one of the known words"),
            (#"{"token":"xyz","event":"uninstall","at":1}"#, "token: expected an even number of hex digits"),
            (#"{"token":"00aa","event":"uninstall","at":1"#, "column 43: the text ends inside an array or object"),
        ])
    func errorPlace(line: String, message: String) throws {
        try withFile { path in
            let good = DeviceRecord(token: Samples.token, event: .uninstall, at: 7).encoded()
            try Data(good + Array("\n\(line)\n".utf8)).write(to: URL(filePath: path))
            let error = #expect(throws: LedgerError.self) { try lines(of: path, as: DeviceRecord.self) }
            #expect(error?.line == 2)
            #expect(error?.message == message)
            #expect(error?.file == path)
        }
    }

    @Test("The reader ignores unknown fields") func unknownFields() throws {
        let line = Array(#"{"token":"00aabb","event":"uninstall","new":[{"a":1}],"at":7}"#.utf8)
        #expect(try DeviceRecord(line: line, of: "devices", number: 1).at == 7)
    }
}
