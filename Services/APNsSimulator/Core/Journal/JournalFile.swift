import Synchronization
import SystemIO

/// The journal as a file that grows: whatever was answered stands in it, however much that is. The ring in memory keeps the last requests only.
///
/// Each loop writes what a read brought before the answers to it leave, with one write(2): so memory is bounded by a read, a disk that is slow
/// slows the simulator down instead of losing anything, and a killed simulator has left nothing out. (A machine that loses its power may: no
/// fsync.) What a full or broken disk did not take is counted, and the simulator says that it is not well.
final class JournalFile: Sendable {
    static let magic = Array("APNSJNL1".utf8)

    /// A disk that refuses is asked again with the next records; what it refused is lost.
    struct Failure: Sendable {
        var lostRecords: Int64 = 0
        var reason = ""
    }

    private struct State {
        var buffer: [UInt8] = []
        var failure: Failure?
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
                try file.append(state.buffer.span)
                return nil
            } catch {
                let isFirst = state.failure == nil
                var failure = state.failure ?? Failure()
                failure.lostRecords += Self.count(state.buffer.span)
                failure.reason = "\(error)"
                state.failure = failure
                return isFirst ? failure : nil
            }
        }
    }

    private static func count(_ records: Span<UInt8>) -> Int64 {
        var count: Int64 = 0
        var position = 0
        while position + 4 <= records.count {
            position += 4 + (0..<4).reduce(0) { $0 | Int(records[position + $1]) << (8 * $1) }
            count += 1
        }
        return count
    }
}
