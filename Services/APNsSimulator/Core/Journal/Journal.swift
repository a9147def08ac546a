/// The last requests, in order. A ring: when it is full the oldest go, and their sequence numbers with them.
struct Journal {
    let capacity: Int
    private var records: [JournalRecord] = []
    /// The next request's number; the first request is 1.
    private(set) var nextSequence: Int64 = 1

    /// How many were overwritten because the ring was full. Those that `clear` removed do not count.
    private(set) var overwritten: Int64 = 0
    /// With a journal file: the bytes that are not written to it yet, see `JournalFile`.
    private var unwritten: [UInt8] = []
    private let hasFile: Bool

    init(capacity: Int, hasFile: Bool = false) {
        self.capacity = max(1, capacity)
        self.hasFile = hasFile
    }

    /// The number of the oldest request still held, or the next one's if none is.
    var firstSequence: Int64 { nextSequence - Int64(records.count) }

    /// - Returns: Its number.
    @discardableResult
    mutating func append(_ record: JournalRecord) -> Int64 {
        if hasFile { record.write(sequence: nextSequence, to: &unwritten) }
        if records.count < capacity {
            records.append(record)
        } else {
            // Sequence numbers count on over `clear`, so the slot follows from the number only while the ring is full: see `start`.
            records[start] = record
            start = start + 1 == capacity ? 0 : start + 1
            overwritten += 1
        }
        nextSequence += 1
        return nextSequence - 1
    }

    /// The result of a request that was recorded before.
    mutating func note(_ note: JournalNote) {
        if hasFile { note.write(to: &unwritten) }
        guard note.sequence >= firstSequence, note.sequence < nextSequence else { return }
        let index = (start + Int(note.sequence - firstSequence)) % records.count
        records[index].answeredAt = note.loss == nil ? note.time : nil
        records[index].loss = note.loss
    }

    /// Index of the oldest record, where the ring is full.
    private var start = 0

    /// Removes all records. Numbers go on.
    mutating func clear() {
        records = []
        start = 0
    }

    /// Exchanges the unwritten bytes for an empty buffer, so that two buffers take turns.
    mutating func takeUnwritten(_ buffer: inout [UInt8]) {
        buffer.removeAll(keepingCapacity: true)
        swap(&buffer, &unwritten)
    }

    /// - Returns: Records with a number above `sequence`, oldest first, at most `limit`, each with its number.
    func records(after sequence: Int64, limit: Int) -> [(sequence: Int64, record: JournalRecord)] {
        guard sequence < nextSequence - 1, limit > 0 else { return [] }
        let first = max(max(0, sequence) + 1, firstSequence)
        let count = min(Int64(limit), nextSequence - first)
        return (first..<first + count).map { number in
            (number, records[(start + Int(number - firstSequence)) % records.count])
        }
    }
}
