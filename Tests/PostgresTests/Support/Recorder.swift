import Synchronization

/// Keeps its records in order.
final class Recorder<Record: Sendable>: Sendable {
    private let list = Mutex<[Record]>([])

    func record(_ record: Record) { list.withLock { $0.append(record) } }
    var records: [Record] { list.withLock { $0 } }
}
