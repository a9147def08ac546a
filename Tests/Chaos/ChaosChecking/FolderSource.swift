import APNsSimulator
package import ChaosLedger
import PushModel

/// A run's folder.
package struct FolderSource: LedgerSource {
    private let folder: RunFolder

    package init(_ folder: RunFolder) { self.folder = folder }

    package func run() throws -> RunRecord { try folder.readRun() }
    package func faults(_ body: (FaultRecord) -> Void) throws { try each(folder.faults, body) }
    package func devices(_ body: (DeviceRecord) -> Void) throws { try each(folder.devices, body) }
    package func clients(_ body: (ClientRecord) -> Void) throws { try each(folder.clients, body) }
    package func reported(_ body: (ReportedRecord) -> Void) throws { try each(folder.reported, body) }
    package func shown(_ body: (ShownRecord) -> Void) throws { try each(folder.shown, body) }
    package func samples(_ body: (SampleRecord) -> Void) throws { try each(folder.samples, body) }

    private func each<Record: LedgerRecord>(_ path: String, _ body: (Record) -> Void) throws {
        var reader = try LedgerReader<Record>(path: path)
        while let record = try reader.next() { body(record) }
    }

    package func pushes(_ body: (Push) -> Void) throws {
        var reader = try JournalFileReader(path: folder.journal)
        var next: Int64 = 1
        while let entry = try reader.next() {
            guard entry.sequence == next else {
                throw LedgerError(file: folder.journal, "requests \(next) to \(entry.sequence - 1) are missing")
            }
            next += 1
            guard let push = Push(entry) else { throw LedgerError(file: folder.journal, "request \(entry.sequence) has no readable id") }
            body(push)
        }
    }
}

extension Push {
    init?(_ entry: JournalEntry) {
        guard let id = PushID(entry.apnsID) else { return nil }
        let fate: Fate =
            switch entry.action {
            case .answer: entry.status == 200 ? .accepted : .refused(entry.status ?? 0)
            case .goAway: .unprocessed
            case .silence, .reset, .close, .halfFrame: .unanswered
            }
        self.init(
            time: entry.time * 1000, connection: entry.connection, token: entry.token.flatMap { DeviceToken(hex: $0) }, id: id,
            topic: entry.topic, marker: entry.marker, fate: fate, timestamp: entry.timestamp.map { $0 * 1000 })
    }
}
