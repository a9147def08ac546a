import OpenSSL
import SystemIO

/// A connection's output: TLS's bytes, in their order, delayed by the scenario's network. It outlives its connection while the client has
/// time to read.
final class ConnectionOutput {
    /// Bytes that leave together, up to the connection's byte `end`.
    private struct Wave {
        let due: ContinuousClock.Instant
        var end: Int
    }

    /// Waves nearer to each other are joined, which bounds their number.
    private static let shortestGap = Duration.milliseconds(1)

    private let socket: TCPSocket
    private let tls: TLSSession
    /// How much later every byte leaves.
    var roundTrip = Duration.zero
    private var waves: [Wave] = []
    private var isReleaseScheduled = false
    /// Bytes since the connection began: sent, and free to be sent.
    private var sent = 0
    private var released = 0
    var unsent = UnsentAnswers()

    init(_ socket: TCPSocket, _ tls: TLSSession) {
        self.socket = socket
        self.tls = tls
    }

    /// Bytes that wait to be sent.
    var pending: Int { tls.pendingOutput }

    /// Some of them may leave as soon as the socket takes them.
    var waitsForSocket: Bool { released > sent }

    /// - Parameter isWhole: all bytes that were handed to HTTP/2 are encrypted.
    func noteEncrypted(isWhole: Bool) {
        if isWhole { unsent.noteEncrypted(end: sent + pending) }
    }

    /// Sends the released bytes, as far as the socket takes them.
    func send() throws(SystemError) {
        release()
        guard waitsForSocket else { return }
        let room = released - sent
        var count = 0
        try tls.withOutput { bytes throws(SystemError) in
            if case .bytes(let taken) = try socket.write(bytes.extracting(first: min(room, bytes.count))) { count = taken }
            return count
        }
        sent += count
        unsent.noteSent(sent)
    }

    private func release() {
        let made = sent + pending
        guard roundTrip > .zero || !waves.isEmpty else { return released = made }
        let now = ContinuousClock.now
        if made > waves.last?.end ?? released { delay(upTo: made, now) }
        while let first = waves.first, first.due <= now {
            released = first.end
            waves.removeFirst()
        }
    }

    /// A wave never overtakes the one before, also if the network has become faster.
    private func delay(upTo end: Int, _ now: ContinuousClock.Instant) {
        if let last = waves.last, now + roundTrip < last.due + Self.shortestGap {
            waves[waves.count - 1].end = end
        } else {
            waves.append(Wave(due: now + roundTrip, end: end))
        }
    }

    /// When to send again, if the loop does not know it yet.
    func takeRelease() -> ContinuousClock.Instant? {
        guard !isReleaseScheduled, let due = waves.first?.due else { return nil }
        isReleaseScheduled = true
        return due
    }

    /// That moment has come.
    func noteRelease() { isReleaseScheduled = false }
}

/// Answers that were handed over and may not have left yet, oldest first. Those that are here when a connection is gone never reached its
/// client.
struct UnsentAnswers {
    struct Answer {
        /// The number of the push in the journal.
        let sequence: Int64
        let kind: Counters.Kind
        /// The answer has left when this many bytes of the connection have; `max` until it is encrypted.
        fileprivate(set) var end = Int.max
    }

    private(set) var answers: [Answer] = []

    mutating func append(_ sequence: Int64, _ answer: ScriptedAnswer) {
        answers.append(Answer(sequence: sequence, kind: Counters.Kind(answer.answer)))
    }

    /// All answers so far are among the connection's first `end` bytes.
    mutating func noteEncrypted(end: Int) {
        var index = answers.count
        while index > 0, answers[index - 1].end == .max {
            index -= 1
            answers[index].end = end
        }
    }

    /// This many bytes of the connection have left.
    mutating func noteSent(_ bytes: Int) {
        guard let last = answers.last else { return }
        if last.end <= bytes { return answers.removeAll(keepingCapacity: true) }
        answers.removeFirst(answers.firstIndex { $0.end > bytes } ?? 0)
    }

    mutating func takeAll() -> [Answer] {
        defer { answers = [] }
        return answers
    }
}
