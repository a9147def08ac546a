import ChaosLedger
import PushModel
import SystemIO
import TestSupport

/// Backends that send more than the capacity: sends to users, over many connections past every proxy, each request once.
struct Flood: Sendable {
    enum Pace: Sendable {
        /// A number of clients of each token service. Each sends its next request when the last one is answered.
        case closed(clients: Int)
        /// A number of requests a second, however long the answers take, over a number of connections to each token service.
        case open(perSecond: Double, connections: Int)

        var connections: Int {
            switch self {
            case .closed(let clients): clients
            case .open(_, let connections): connections
            }
        }

        var isOpen: Bool { if case .open = self { true } else { false } }
    }

    struct Outcome: Sendable {
        /// The time of sending, without the answers that came after it.
        let began: Int64
        let ended: Int64
        let accepted: Int

        var perSecond: Double { Double(accepted) * 1_000_000 / Double(max(1, ended - began)) }
    }

    let apps: [ChaosApp]
    let ledgers: Ledgers
    let addresses: [SocketAddress]
    private let tally: Tally
    private let services: [String]
    private let settings: RunSettings
    /// The bytes of each app's request before the length of its body.
    private let heads: [String]

    init(_ client: Client, _ platform: Platform, _ settings: RunSettings) throws {
        (apps, ledgers, tally, self.settings) = (client.apps, client.ledgers, client.tally, settings)
        services = platform.tokenServices.map(\.program.name)
        addresses = try platform.tokenServices.map { try SocketAddress.resolve(host: "127.0.0.1", port: $0.port)[0] }
        heads = client.apps.map { app in
            "POST /v1/apps/\(app.slug)/notifications HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer \(app.key)\r\n"
                + "content-type: application/json\r\n"
        }
    }

    func run(_ pace: Pace, for duration: Duration, random: SeededGenerator) async throws -> Outcome {
        try await onOwnThread { try FloodLoop(self, pace, for: duration, random: random).run() }
    }

    func drawUser(_ random: inout SeededGenerator) -> String { LoadGenerator.drawUser(settings, &random) }

    func request(_ app: Int, _ user: String, _ marker: Int64) -> [UInt8] {
        let body = #"{"to":{"user":"\#(user)"},"payload":{"aps":{"alert":"Chaos"},"marker":\#(marker)},"receipts":"all"}"#
        return Array("\(heads[app])idempotency-key: \(key(marker))\r\ncontent-length: \(body.utf8.count)\r\n\r\n\(body)".utf8)
    }

    private func key(_ marker: Int64) -> String { "flood-\(settings.seed)-\(marker)" }

    func record(_ question: FloodConnection.Question, service: Int) -> ClientRecord {
        var record = ClientRecord(id: ledgers.nextID(), kind: .send, app: apps[question.app].slug, sentAt: question.sentAt)
        record.service = services[service]
        (record.target, record.user) = (.user, question.user)
        (record.marker, record.key) = (question.marker, key(question.marker))
        return record
    }

    /// The results of one second's requests.
    func note(_ records: [ClientRecord], _ sample: SampleRecord.Flood) {
        if !records.isEmpty { ledgers.note(records) }
        ledgers.note([.flood(sample)])
        let accepted = records.count { $0.status == 202 }
        tally.change { count in
            count.meant += accepted
            count.accepted += accepted
            count.answered += accepted + sample.shed
            count.refused += sample.shed
            count.unanswered += records.count { $0.status == nil }
        }
    }
}
