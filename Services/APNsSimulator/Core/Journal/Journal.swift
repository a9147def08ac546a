/// The last requests, in order. A ring: when it is full the oldest go, and their sequence numbers with them.
struct Journal {
    let capacity: Int
    private var records: [JournalRecord] = []
    /// The next request's number; the first request is 1.
    private(set) var nextSequence: Int64 = 1

    /// How many were overwritten because the ring was full. Those that `clear` removed do not count.
    private(set) var overwritten: Int64 = 0
    /// The bytes that are not written to the journal file yet, if there is one, see `JournalFile`.
    private var unwritten: [UInt8] = []
    private let hasFile: Bool

    init(capacity: Int, hasFile: Bool = false) {
        self.capacity = max(1, capacity)
        self.hasFile = hasFile
    }

    /// The number of the oldest request still held, or the next one's if none is.
    var firstSequence: Int64 { nextSequence - Int64(records.count) }

    /// - Returns: The record's number.
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

/// Why an answer did not reach its client.
package enum AnswerLoss: String, Sendable, CaseIterable {
    /// The client's reset closed the stream, or a GOAWAY left it unprocessed.
    case streamClosed = "stream_closed"
    case connectionClosed = "connection_closed"
    /// No more bytes were written on it.
    case connectionFrozen = "connection_frozen"
}

/// The later result of a recorded request: its late answer was handed over, or its answer never left.
package struct JournalNote: Sendable, Equatable {
    /// The request's.
    package let sequence: Int64
    /// UNIX milliseconds.
    package let time: Int64
    /// nil: the answer was handed to its connection.
    package let loss: AnswerLoss?

    /// The size of a note in the journal's file: no request is as short.
    static let fixedBytes = 17

    func write(to bytes: inout [UInt8]) {
        bytes.append(addingCapacity: 4 + Self.fixedBytes) { output in
            output.write(UInt32(Self.fixedBytes))
            output.write(sequence)
            output.write(time)
            output.append(loss.flatMap { AnswerLoss.allCases.firstIndex(of: $0) }.map { UInt8($0 + 1) } ?? 0)
        }
    }

    /// - Parameter bytes: The bytes after the length.
    /// - Returns: nil if this is no note.
    static func read(_ bytes: Span<UInt8>) -> JournalNote? {
        guard bytes.count == fixedBytes, Int(bytes[16]) <= AnswerLoss.allCases.count else { return nil }
        return JournalNote(
            sequence: Int64(bitPattern: bytes.number(at: 0, 8)), time: Int64(bitPattern: bytes.number(at: 8, 8)),
            loss: bytes[16] == 0 ? nil : AnswerLoss.allCases[Int(bytes[16]) - 1])
    }
}
