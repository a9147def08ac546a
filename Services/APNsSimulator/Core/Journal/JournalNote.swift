/// Why an answer did not reach its client.
package enum AnswerLoss: String, Sendable, CaseIterable {
    /// By the client's reset, or a GOAWAY that left it unprocessed.
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

    /// In the journal's file: no request is as short.
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
