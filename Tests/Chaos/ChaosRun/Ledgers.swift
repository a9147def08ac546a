import ChaosLedger
import Foundation
import Synchronization

/// The ledgers of this run. A run without ledgers cannot be judged, so a failure to write ends it.
final class Ledgers: Sendable {
    let folder: RunFolder
    private let clients: LedgerWriter<ClientRecord>
    private let faults: LedgerWriter<FaultRecord>
    private let devices: LedgerWriter<DeviceRecord>
    private let reported: LedgerWriter<ReportedRecord>
    private let samples: LedgerWriter<SampleRecord>
    private let shown: LedgerWriter<ShownRecord>
    private let failure = Mutex<(any Error)?>(nil)
    private let lastID = Atomic<Int64>(0)
    private let lastMarker = Atomic<Int64>(0)

    init(_ folder: RunFolder) throws {
        self.folder = folder
        clients = try LedgerWriter(path: folder.clients)
        faults = try LedgerWriter(path: folder.faults)
        devices = try LedgerWriter(path: folder.devices)
        reported = try LedgerWriter(path: folder.reported)
        samples = try LedgerWriter(path: folder.samples)
        shown = try LedgerWriter(path: folder.shown)
    }

    func nextID() -> Int64 { lastID.add(1, ordering: .relaxed).newValue }
    func nextMarker() -> Int64 { lastMarker.add(1, ordering: .relaxed).newValue }

    func note(_ record: ClientRecord) { keep { try clients.append(record) } }
    func note(_ records: [ClientRecord]) { keep { try clients.append(records) } }
    func note(_ record: FaultRecord) { keep { try faults.append(record) } }
    func note(_ record: DeviceRecord) { keep { try devices.append(record) } }
    func note(_ records: [ReportedRecord]) { keep { try reported.append(records) } }
    func note(_ records: [ShownRecord]) { keep { try shown.append(records) } }
    func note(_ records: [SampleRecord]) { keep { try samples.append(records) } }

    private func keep(_ body: () throws -> Void) {
        do { try body() } catch { failure.withLock { $0 = $0 ?? error } }
    }

    /// - Throws: the first error of writing.
    func check() throws { if let error = failure.withLock({ $0 }) { throw error } }
}

/// UNIX time in microseconds, as the ledgers have it.
func now() -> Int64 { Int64(Date().timeIntervalSince1970 * 1_000_000) }
