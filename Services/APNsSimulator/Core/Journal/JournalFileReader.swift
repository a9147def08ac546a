import SystemIO

/// Reads a journal file from its beginning, also one that is being written. Holds about a mebibyte, however long the file is.
package struct JournalFileReader {
    private static let pieceBytes = 1 << 20

    private let file: InputFile
    private var buffer: [UInt8] = []
    private var position = 0

    /// - Throws: ``SimulatorError`` if the file cannot be read or is no journal.
    package init(path: String) throws {
        do throws(SystemError) {
            file = try InputFile(path: path)
            _ = try has(1)
        } catch {
            throw SimulatorError(.configuration, "\(path) cannot be read: \(error)")
        }
        guard try has(JournalFile.magic.count), buffer.starts(with: JournalFile.magic) else {
            throw SimulatorError(.configuration, "\(path) is not a journal of the simulator")
        }
        position = JournalFile.magic.count
    }

    /// A line of the journal.
    package enum Line: Sendable, Equatable {
        case request(JournalEntry)
        /// A note about a request before it.
        case note(JournalNote)
    }

    /// The next request; nil if no whole one is there. A later call goes on.
    package mutating func next() throws -> JournalEntry? {
        while let line = try nextLine() {
            if case .request(let entry) = line { return entry }
        }
        return nil
    }

    /// Reads as `next` does, also the results of requests.
    package mutating func nextLine() throws -> Line? {
        guard try has(4) else { return nil }
        let length = (0..<4).reduce(0) { $0 | Int(buffer[position + $1]) << (8 * $1) }
        guard try has(4 + length) else { return nil }
        defer { position += 4 + length }
        let bytes = buffer.span.extracting(position + 4..<position + 4 + length)
        if let note = JournalNote.read(bytes) { return .note(note) }
        guard let found = JournalRecord.read(bytes) else {
            throw SimulatorError(.configuration, "the journal holds something else than a request")
        }
        return .request(JournalEntry(sequence: found.sequence, found.record))
    }

    /// Whether that many bytes lie behind the position; reads on if necessary.
    private mutating func has(_ count: Int) throws(SystemError) -> Bool {
        while buffer.count - position < count {
            buffer.removeSubrange(..<position)
            position = 0
            guard try file.read(max(Self.pieceBytes, count), into: &buffer) > 0 else { return buffer.count >= count }
        }
        return true
    }
}
