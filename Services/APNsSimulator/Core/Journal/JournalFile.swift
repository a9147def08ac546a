import Synchronization
import SystemIO

/// The journal as a file that grows: whatever was answered stands in it, however much that is. The ring in memory keeps the last requests only.
///
/// Each loop writes what a read brought before the answers to it leave, with one write(2): so memory is bounded by a read, a disk that is slow
/// slows the simulator down instead of losing anything, and a killed simulator has left nothing out. (A machine that loses its power may: no
/// fsync.) What a full or broken disk did not take is counted, and the simulator says that it is not well.
final class JournalFile: Sendable {
    static let magic = Array("APNSJNL2".utf8)

    /// A disk that refuses is asked again with the next records; what it refused is lost, and nothing of it stays in the file.
    struct Failure: Sendable {
        var lostRecords: Int64 = 0
        var reason = ""
    }

    private struct State {
        var buffer: [UInt8] = []
        var failure: Failure?
        /// Of the magic and whole records.
        var length = JournalFile.magic.count
        /// Half a record stands at the end and cannot be taken away: nothing can follow it.
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

    /// Writes what `take` hands over; it is called with the order of writes held.
    /// - Returns: the first failure, to be told once.
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

    /// Takes away the half of a record that a write left behind when it failed.
    /// - Returns: How many bytes of the buffer stand in the file, all of whole records.
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

    /// - Returns: the failure, where it is the first.
    private func lose(from position: Int, _ error: SystemError?, _ state: inout State) -> Failure? {
        let isFirst = state.failure == nil
        var failure = state.failure ?? Failure()
        failure.lostRecords += Self.records(of: state.buffer.span.extracting(droppingFirst: position), within: .max).count
        if let error { failure.reason = "\(error)" }
        state.failure = failure
        return isFirst ? failure : nil
    }

    /// The whole records among the first so many bytes.
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
