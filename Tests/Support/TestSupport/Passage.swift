import SystemIO

/// One direction of one connection: the bytes that the proxy has read from the source and not yet written to the sink, and the times of
/// their writes.
final class Passage {
    /// The bytes of one read.
    private struct Chunk {
        let bytes: [UInt8]
        let due: ContinuousClock.Instant
    }

    enum Progress {
        /// Nothing is left to write.
        case empty
        /// The sink takes no more now.
        case blocked
        /// The next write is due then.
        case due(ContinuousClock.Instant)
        /// Nothing is written until the conditions change.
        case halted
    }

    private(set) var way: LinkConditions.Way
    /// The source will send no more.
    var hasEnded = false
    /// And the sink has got the end of stream.
    var hasToldEnd = false
    /// The sink did not take the last write. The poller reports when it takes more.
    private(set) var isBlocked = false
    /// The time of this passage's next write in the diary.
    var alarm: ContinuousClock.Instant?

    private var chunks: [Chunk] = []
    private var head = 0
    /// The number of bytes of the first chunk that were written.
    private var written = 0
    private var queued = 0
    private var lastDue = ContinuousClock.now
    private var nextWrite = ContinuousClock.now
    /// How many bytes may still pass.
    private var remaining: Int?
    /// How many bytes come before the changed one.
    private var untilGarbled: Int?

    init(_ way: LinkConditions.Way) {
        self.way = way
        remaining = way.limit?.bytes
        untilGarbled = way.garbled
    }

    var isEmpty: Bool { queued == 0 }

    /// How the connection ends after the bytes that may pass.
    var ending: LinkConditions.Ending? { remaining == 0 && isEmpty ? way.limit?.ending : nil }

    var wantsBytes: Bool {
        guard way.flow != .stalled, !hasEnded, remaining != 0 else { return false }
        if way.isClear { return isEmpty }
        // Enough for tens of MB/s over a slow link. Beyond it the sender must notice a slow sink.
        return queued < (way.latency + way.jitter > .zero ? 1 << 20 : 64 << 10)
    }

    /// Makes all waiting bytes due at once.
    func set(_ next: LinkConditions.Way) {
        way = next
        remaining = next.limit?.bytes
        untilGarbled = next.garbled
        let now = ContinuousClock.now
        for index in head..<chunks.count { chunks[index] = Chunk(bytes: chunks[index].bytes, due: now) }
        (lastDue, nextWrite) = (now, now)
    }

    /// - Returns: false where bytes vanished.
    func take(_ count: Int, of buffer: [UInt8], to sink: TCPSocket, drawing generator: inout SeededGenerator) throws(SystemError) -> Bool {
        if way.flow == .vanishing { return false }
        let passing = min(count, remaining ?? count)
        remaining = remaining.map { $0 - passing }
        var first = 0
        if way.isClear, isEmpty, case .bytes(let count) = try sink.write(buffer.span.extracting(..<passing)) { first = count }
        if first < passing {
            var bytes = Array(buffer[first..<passing])
            garble(&bytes)
            append(bytes, drawing: &generator)
        }
        return passing == count
    }

    private func garble(_ bytes: inout [UInt8]) {
        guard let place = untilGarbled else { return }
        guard place < bytes.count else {
            untilGarbled = place - bytes.count
            return
        }
        // Turns PostgreSQL's first byte S (TLS) into N (no TLS), as an attacker in the middle would.
        bytes[place] ^= UInt8(ascii: "S") ^ UInt8(ascii: "N")
        untilGarbled = nil
    }

    private func append(_ bytes: [UInt8], drawing generator: inout SeededGenerator) {
        var due = lastDue
        if way.latency > .zero || way.jitter > .zero {
            due = max(lastDue, ContinuousClock.now + way.latency + way.jitter * Double.random(in: 0...1, using: &generator))
            lastDue = due
        }
        chunks.append(Chunk(bytes: bytes, due: due))
        queued += bytes.count
    }

    /// Writes what is due.
    func flush(to sink: TCPSocket, now: ContinuousClock.Instant) throws(SystemError) -> Progress {
        isBlocked = false
        if way.flow == .stalled { return isEmpty ? .empty : .halted }
        while queued > 0 {
            let due = max(chunks[head].due, nextWrite)
            if due > now { return .due(due) }
            let bytes = chunks[head].bytes
            let end = written + min(bytes.count - written, mostBytes)
            guard case .bytes(let count) = try sink.write(bytes.span.extracting(written..<end)) else {
                isBlocked = true
                return .blocked
            }
            advance(count, now: now)
        }
        return .empty
    }

    /// The size of one write: with a rate, the bytes of ten milliseconds.
    private var mostBytes: Int { min(way.sliceBytes.map { max(1, $0) } ?? .max, way.bytesPerSecond.map { max(1, $0 / 100) } ?? .max) }

    private func advance(_ count: Int, now: ContinuousClock.Instant) {
        queued -= count
        written += count
        if written == chunks[head].bytes.count {
            (written, head) = (0, head + 1)
            if head == chunks.count {
                chunks.removeAll(keepingCapacity: true)
                head = 0
            } else if head >= 256 {
                chunks.removeFirst(head)
                head = 0
            }
        }
        if let rate = way.bytesPerSecond {
            // Makes up for a late wake-up, by at most a tenth of a second.
            nextWrite = max(nextWrite, now - .milliseconds(100)) + .seconds(1) * (Double(count) / Double(max(1, rate)))
        }
        if way.sliceBytes != nil, way.slicePause > .zero { nextWrite = max(nextWrite, now + way.slicePause) }
    }

    /// - Returns: whether there were any bytes.
    func discard() -> Bool {
        defer {
            chunks.removeAll()
            (head, written, queued) = (0, 0, 0)
        }
        return queued > 0
    }
}
