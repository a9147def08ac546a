import Synchronization
import SystemIO

/// The journal as a file that grows: it holds every answered request. The ring in memory keeps the last requests only.
///
/// Each loop writes a read's requests before their answers leave, with one write(2). So a read bounds the memory, a slow disk slows the
/// simulator down and loses no record, and a killed simulator has left none out. (A machine that loses its power may: no fsync.) Records
/// that a full or broken disk did not take are counted, and the simulator reports itself as unhealthy.
final class JournalFile: Sendable {
    static let magic = Array("APNSJNL2".utf8)

    /// A disk that refuses is tried again with the next records; refused records are lost, and no part of them stays in the file.
    struct Failure: Sendable {
        var lostRecords: Int64 = 0
        var reason = ""
    }

    private struct State {
        var buffer: [UInt8] = []
        var failure: Failure?
        /// The length of the magic and whole records.
        var length = JournalFile.magic.count
        /// Half a record is at the end and cannot be removed, so no further record can be written.
        var isBroken = false
    }

    private let file: AppendedFile
    private let state = Mutex(State())

    /// Replaces a file of that name: numbers begin anew with every start.
    init(path: String) throws(SystemError) {
        file = try AppendedFile(replacing: path)
        try file.append(Self.magic.span)
    }

    /// nil while everything is in the file.
    var failure: Failure? { state.withLock { $0.failure } }

    /// Writes the bytes of `take`, which is called with the order of writes held.
    /// - Returns: the first failure, to be reported once.
    func write(_ take: (inout [UInt8]) -> Void) -> Failure? {
        state.withLock { state in
            take(&state.buffer)
            guard !state.buffer.isEmpty else { return nil }
            do throws(SystemError) {
                guard !state.isBroken else { return lose(from: 0, nil, &state) }
                try file.append(state.buffer.span)
                state.length += state.buffer.count
                return nil
            } catch {
                return lose(from: cutToWholeRecords(&state), error, &state)
            }
        }
    }

    /// Removes the half record that a failed write left behind.
    /// - Returns: How many bytes of the buffer are in the file, all of whole records.
    private func cutToWholeRecords(_ state: inout State) -> Int {
        do throws(SystemError) {
            let written = try file.size() - state.length
            let kept = Self.records(of: state.buffer.span, within: written).bytes
            if kept < written { try file.truncate(to: state.length + kept) }
            state.length += kept
            return kept
        } catch {
            state.isBroken = true
            return 0
        }
    }

    /// - Returns: the failure, if it is the first.
    private func lose(from position: Int, _ error: SystemError?, _ state: inout State) -> Failure? {
        let isFirst = state.failure == nil
        var failure = state.failure ?? Failure()
        failure.lostRecords += Self.records(of: state.buffer.span.extracting(droppingFirst: position), within: .max).count
        if let error { failure.reason = "\(error)" }
        state.failure = failure
        return isFirst ? failure : nil
    }

    /// The whole records among the first `limit` bytes.
    private static func records(of bytes: Span<UInt8>, within limit: Int) -> (count: Int64, bytes: Int) {
        var (count, position) = (Int64(0), 0)
        while position + 4 <= bytes.count {
            let next = position + 4 + (0..<4).reduce(0) { $0 | Int(bytes[position + $1]) << (8 * $1) }
            guard next <= limit else { break }
            (count, position) = (count + 1, next)
        }
        return (count, position)
    }
}
