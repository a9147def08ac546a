/// Who still owes what before a job may be acknowledged: its own work, and every message that carries a part of its result.
///
/// A job is entered owing one (the work). Each outcome, retry or dead-letter message that covers a part of it adds one, each
/// confirmation takes one off; at zero, and only there, its receipt is handed out, once. This is promise 1 (docs/promises.md).
struct SettlementLedger<Receipt> {
    typealias JobNumber = UInt64

    private struct Entry {
        let receipt: Receipt
        var owed = 1
    }

    private var entries: [JobNumber: Entry] = [:]
    private var lastNumber: JobNumber = 0
    /// Receipts whose jobs owe nothing any more, in the order in which that happened.
    private(set) var settled: [Receipt] = []

    var openCount: Int { entries.count }
    var isEmpty: Bool { entries.isEmpty && settled.isEmpty }

    mutating func enter(_ receipt: Receipt) -> JobNumber {
        lastNumber += 1
        entries[lastNumber] = Entry(receipt: receipt)
        return lastNumber
    }

    /// A message that covers a part of this job is about to be published.
    mutating func owe(_ job: JobNumber) {
        entries[job]?.owed += 1
    }

    /// One of the things that the job owed is done: its work, or one message that the broker confirmed.
    /// - Returns: whether it owes nothing any more.
    mutating func pay(_ job: JobNumber) -> Bool {
        guard var entry = entries[job] else { return false }
        entry.owed -= 1
        guard entry.owed == 0 else {
            entries[job] = entry
            return false
        }
        entries[job] = nil
        settled.append(entry.receipt)
        return true
    }

    /// Takes the job out without settling it: its receipt goes back to the broker.
    mutating func withdraw(_ job: JobNumber) -> Receipt? {
        entries.removeValue(forKey: job)?.receipt
    }

    /// The broker connection was lost: no receipt is worth anything any more, and the broker delivers every job anew.
    mutating func forgetAll() {
        entries.removeAll()
        settled.removeAll()
    }

    mutating func takeSettled() -> [Receipt] {
        defer { settled = [] }
        return settled
    }
}
