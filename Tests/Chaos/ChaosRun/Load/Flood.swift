import ChaosLedger
import SystemIO
import TestSupport

/// Backends that send more than the capacity: sends to users, over many connections past every proxy, each request once.
struct Flood: Sendable {
    enum Pace: Sendable {
        /// A number of clients of each token service. Each sends its next batch when its last one is answered.
        case closed(clients: Int)
        /// A number of requests a second, however long the answers take, over a number of connections to each token service.
        case open(perSecond: Double, connections: Int)

        var connections: Int {
            switch self {
            case .closed(let clients): clients
            case .open(_, let connections): connections
            }
        }
    }

    struct Service: Sendable {
        let name: String
        let address: SocketAddress
    }

    struct Outcome: Sendable {
        /// The time of sending, without the answers that came after it.
        let began: Int64
        let ended: Int64
        let accepted: Int

        var perSecond: Double { Double(accepted) * 1_000_000 / Double(max(1, ended - began)) }
    }

    /// A connection gets so many requests in one write, and the next ones when all of these are answered. One at a time, a request costs
    /// the machine a fifth more: a write, a read and a wake-up at both ends.
    static let batch = 4

    let services: [Service]
    let requests: FloodRequests
    let ledgers: Ledgers
    let tally: Tally

    /// Returns when every request has an answer or has timed out, and is in the ledgers.
    func run(_ pace: Pace, for duration: Duration, seed: UInt64) async throws -> Outcome {
        try await onOwnThread {
            let loop = try FloodLoop(self, pace, seed: seed)
            let outcome = try loop.run(for: duration)
            note(loop.book.entries)
            return outcome
        }
    }

    /// One second's results.
    func note(_ second: FloodBook.Second) {
        ledgers.note([.flood(second.sample)])
        tally.change { count in
            count.meant += second.accepted
            count.accepted += second.accepted
            count.answered += second.accepted + second.sample.shed
            count.refused += second.sample.shed
            count.unanswered += second.unanswered
        }
    }

    /// Writes the records of requests. It takes a processor for seconds, so it comes after the flood.
    private func note(_ entries: [FloodBook.Entry]) {
        for start in stride(from: 0, to: entries.count, by: 1000) {
            ledgers.note(entries[start..<min(start + 1000, entries.count)].map(record))
        }
    }

    private func record(_ entry: FloodBook.Entry) -> ClientRecord {
        let question = entry.question
        var record = ClientRecord(id: ledgers.nextID(), kind: .send, app: requests.apps[question.app].slug, sentAt: question.sentAt)
        record.service = services[entry.service].name
        (record.target, record.user) = (.user, requests.users[question.user])
        (record.marker, record.key) = (question.marker, requests.key(question.marker))
        switch entry.end {
        case .answered(let at, let status, let retryAfter, let notification):
            (record.answeredAt, record.status, record.retryAfter, record.notification) = (at, status, retryAfter, notification)
        case .gaveUp(let at): record.gaveUpAt = at
        }
        return record
    }
}
