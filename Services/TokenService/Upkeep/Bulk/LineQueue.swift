import Synchronization

/// Stands between the task that reads an import's lines and the task that commits them. Lines that arrive during a commit become the next
/// chunk; a reader that is too fast waits.
///
/// One reader, one committer. Memory holds less than two chunks here, one with the committer, and one buffer of the socket.
package final class LineQueue: Sendable {
    package enum Chunk: Sendable {
        case lines([ImportLine])
        /// Every line was taken.
        case ended
        /// The stream broke off: the missing lines will not come.
        case cut
        /// The committer wants no more, or the process shuts down; the lines in the queue are given up.
        case stopped
    }

    private struct State {
        var lines: [ImportLine] = []
        var bytes = 0
        var end: Chunk?
        /// Waits here while the queue is full. Returns whether more is wanted.
        var reader: CheckedContinuation<Bool, Never>?
        var committer: CheckedContinuation<Void, Never>?

        func isFull(_ limit: Limit) -> Bool { lines.count >= limit.lines || bytes >= limit.bytes }

        var isWanted: Bool {
            if case .stopped = end { false } else { true }
        }

        mutating func next(_ limit: Limit) -> Chunk? {
            if case .stopped = end { return .stopped }
            guard !lines.isEmpty else { return end }
            guard lines.count > limit.lines else {
                defer { (lines, bytes) = ([], 0) }
                return .lines(lines)
            }
            let chunk = Array(lines.prefix(limit.lines))
            lines.removeFirst(chunk.count)
            bytes -= chunk.reduce(0) { $0 + $1.bytes }
            return .lines(chunk)
        }
    }

    package struct Limit: Sendable {
        package var lines: Int
        package var bytes: Int

        package init(lines: Int, bytes: Int) {
            self.lines = lines
            self.bytes = bytes
        }
    }

    private let limit: Limit
    private let state = Mutex(State())

    package init(limit: Limit) { self.limit = limit }

    /// Lines that no committer has taken.
    var count: Int { state.withLock { $0.lines.count } }

    /// Takes the lines, a chunk at most, and waits while the queue is full.
    /// - Returns: false when the committer wants no more, or the process shuts down.
    package func put(_ lines: [ImportLine]) async -> Bool {
        let committer = state.withLock { state in
            state.lines += lines
            state.bytes += lines.reduce(0) { $0 + $1.bytes }
            defer { state.committer = nil }
            return state.committer
        }
        committer?.resume()
        return await withCheckedContinuation { continuation in
            let isWanted = state.withLock { state -> Bool? in
                guard state.isWanted else { return false }
                guard state.isFull(limit) else { return true }
                state.reader = continuation
                return nil
            }
            if let isWanted { continuation.resume(returning: isWanted) }
        }
    }

    /// The committer still takes the lines that were read before, except after `.stopped`.
    package func finish(_ end: Chunk) {
        let (reader, committer) = state.withLock { state in
            if state.isWanted { state.end = end }
            defer { (state.reader, state.committer) = (nil, nil) }
            return (state.reader, state.committer)
        }
        committer?.resume()
        reader?.resume(returning: false)
    }

    /// Waits for lines, or for the end. At most as many lines as the limit says.
    package func take() async -> Chunk {
        while true {
            let (chunk, reader) = state.withLock { state in
                let chunk = state.next(limit)
                guard chunk != nil, !state.isFull(limit) else { return (chunk, CheckedContinuation<Bool, Never>?.none) }
                defer { state.reader = nil }
                return (chunk, state.reader)
            }
            reader?.resume(returning: true)
            if let chunk { return chunk }
            await withCheckedContinuation { continuation in
                let mayWait = state.withLock { state in
                    guard state.lines.isEmpty, state.end == nil else { return false }
                    state.committer = continuation
                    return true
                }
                if !mayWait { continuation.resume() }
            }
        }
    }
}
