import PushModel

/// Counts the open parts of each job before it may be acknowledged: its own work, and every message that carries a part of its result.
///
/// It also knows the work load: jobs that are not settled.
///
/// A job begins with one open part (the work). Each outcome, retry or dead-letter message that covers a part of it adds one, each
/// confirmation takes one off; at zero, and only there, its receipt is handed out, once. This is promise 1 (docs/promises.md).
struct SettlementLedger<Receipt> {
    typealias JobNumber = UInt64

    private struct Entry {
        let receipt: Receipt
        var owed = 1
        var line: JobLine?
        var deliveries = 0
    }

    private var entries: [JobNumber: Entry] = [:]
    private var lastNumber: JobNumber = 0
    /// Receipts of jobs without open parts, in the order in which they became so.
    private(set) var settled: [Receipt] = []

    private(set) var work = WorkLoad()

    var isEmpty: Bool { entries.isEmpty && settled.isEmpty }

    mutating func enter(_ receipt: Receipt) -> JobNumber {
        lastNumber += 1
        entries[lastNumber] = Entry(receipt: receipt)
        return lastNumber
    }

    /// The job was read.
    mutating func begin(_ job: JobNumber, of line: JobLine, deliveries: Int) {
        guard entries[job] != nil else { return }
        entries[job]?.line = line
        entries[job]?.deliveries = deliveries
        work.began(line, deliveries: deliveries)
    }

    private mutating func remove(_ job: JobNumber) -> Entry? {
        guard let entry = entries.removeValue(forKey: job) else { return nil }
        if let line = entry.line { work.settled(line, deliveries: entry.deliveries) }
        return entry
    }

    /// A message that covers a part of this job is about to be published.
    mutating func owe(_ job: JobNumber) {
        entries[job]?.owed += 1
    }

    /// One open part of the job is done: its work, or one message that the broker confirmed.
    mutating func pay(_ job: JobNumber) {
        guard let owed = entries[job]?.owed else { return }
        entries[job]?.owed = owed - 1
        if owed == 1, let entry = remove(job) { settled.append(entry.receipt) }
    }

    /// The broker connection was lost: no receipt is valid any more, and the broker delivers every job anew.
    mutating func forgetAll() {
        entries.removeAll()
        work = WorkLoad()
        settled.removeAll()
    }

    mutating func takeSettled() -> [Receipt] {
        defer { settled = [] }
        return settled
    }
}
