import ChaosLedger
import FoundationEssentials
import PushModel
import Synchronization
import SystemIO
import TestSupport
import Testing

@testable import ChaosRun

@Suite("A flood accounts for every request: by a record, or by its second's count of shed requests", .timeLimit(.minutes(5)))
struct FloodTests {
    private static let apps = [
        ChaosApp(slug: "one", bundleID: "com.example.one", policy: "multi", environment: "production", tokenPrefix: "aa", key: "psh_one"),
        ChaosApp(slug: "two", bundleID: "com.example.two", policy: "multi", environment: "production", tokenPrefix: "bb", key: "psh_two"),
    ]
    private static let requests = FloodRequests(apps: apps, users: ["user-9", "user-10"], seed: 7)

    /// What the ledgers say after a flood of servers, and what the servers say.
    private struct Story {
        var tally: Tally.Counts
        var outcome: Flood.Outcome
        var records: [ClientRecord] = []
        var seconds: [SampleRecord.Flood] = []
        var asked: [FloodServer.Request]
    }

    private func run(_ pace: Flood.Pace, for duration: Duration = .milliseconds(100), _ servers: FloodServer...) async throws -> Story {
        defer { for server in servers { server.end() } }
        let folder = FileManager.default.temporaryDirectory.appending(path: "flood-" + PushID.random().description)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { _ = try? FileManager.default.removeItem(at: folder) }
        let run = RunFolder(folder.path(percentEncoded: false))
        let (ledgers, tally) = (try Ledgers(run), Tally())
        let flood = Flood(
            services: servers.enumerated().map { .init(name: "service-\($0.offset)", address: $0.element.address) },
            requests: Self.requests, ledgers: ledgers, tally: tally)
        let outcome = try await flood.run(pace, for: duration, seed: 7)
        try ledgers.check()
        var story = Story(tally: tally.counts, outcome: outcome, asked: servers.flatMap(\.requests))
        var clients = try LedgerReader<ClientRecord>(path: run.clients)
        while let record = try clients.next() { story.records.append(record) }
        var samples = try LedgerReader<SampleRecord>(path: run.samples)
        while let record = try samples.next() { if case .flood(let second) = record { story.seconds.append(second) } }
        return story
    }

    @Test("A request names its app and user, and has its marker in the key and in the payload") func bytes() {
        var bytes: [UInt8] = []
        let marker = FloodRequests.marker(42)
        Self.requests.append(.init(app: 0, user: 0, marker: FloodRequests.marker(7_654_321), sentAt: 0), to: &bytes)
        Self.requests.append(.init(app: 1, user: 1, marker: marker, sentAt: 0), to: &bytes)
        let requests = String(decoding: bytes, as: UTF8.self).split(separator: "POST ").map { "POST \($0)" }
        #expect(requests.count == 2)
        #expect(requests[0].contains("\r\nidempotency-key: flood-7-1007654321\r\n") && requests[0].hasSuffix(#""marker":1007654321}}"#))
        let body = #"{"to":{"user":"user-10"},"receipts":"all","payload":{"aps":{"alert":"Chaos"},"marker":1000000042}}"#
        #expect(
            requests[1]
                == "POST /v1/apps/two/notifications HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer psh_two\r\n"
                    + """
                    content-type: application/json\r\nidempotency-key: flood-7-1000000042\r\ncontent-length: \
                    \(body.utf8.count)\r\n\r\n\(body)
                    """
        )
        #expect(Self.requests.key(marker) == "flood-7-1000000042")
    }

    @Test(
        "Every answered request has its record or is counted as shed, though each server waits for a whole batch",
        arguments: [Flood.Pace.closed(clients: 2), .open(perSecond: 4000, connections: 2)])
    func everyRequest(_ pace: Flood.Pace) async throws {
        let story = try await run(pace, FloodServer(), FloodServer())
        let asked = Dictionary(grouping: story.asked) { $0.status }
        #expect(asked.count == 4 && story.asked.count % Flood.batch == 0)
        #expect(Set(story.asked.map(\.service)).count == 2, "both services are asked")
        // Shed requests have no record; all others have one each.
        let records = Dictionary(grouping: story.records) { $0.marker }
        #expect(records.count == story.records.count)
        #expect(Set(records.keys) == Set((asked[202, default: []] + asked[500, default: []]).map(\.marker)))
        for request in asked[202, default: []] {
            let record = try #require(records[request.marker]?.first)
            #expect(record.status == 202 && record.notification == FloodServer.notification(request.marker))
            #expect(record.user == request.user && record.app == request.app && record.key == request.key)
            #expect(record.kind == .send && record.target == .user && record.sentAt <= record.answeredAt ?? 0)
        }
        let shed = asked[429, default: []].count + asked[503, default: []].count
        #expect(story.seconds.map(\.shed).reduce(0, +) == shed && story.seconds.contains { $0.longest > 0 })
        let accepted = asked[202, default: []].count
        #expect(story.tally.accepted == accepted && story.tally.refused == shed && story.tally.unanswered == 0)
        #expect(story.outcome.accepted <= accepted && story.outcome.ended > story.outcome.began)
    }

    @Test("A refusal that does not say when to come back has a record") func unkindRefusals() async throws {
        let story = try await run(.closed(clients: 1), FloodServer(retryAfter: ""))
        #expect(story.seconds.allSatisfy { $0.shed == 0 })
        #expect(story.records.count == story.asked.count && story.records.contains { $0.status == 429 && $0.retryAfter == nil })
    }

    @Test("If a connection ends, every request of it that was not answered has a record without a status") func endedConnections()
        async throws
    {
        let story = try await run(.closed(clients: 1), for: .seconds(1), FloodServer(closesAfter: 3))
        let (answered, others) = (story.asked.count { $0.isAnswered }, story.asked.count { !$0.isAnswered })
        let unanswered = story.records.filter { $0.status == nil }
        #expect(unanswered.count == others && unanswered.allSatisfy { $0.gaveUpAt != nil } && story.tally.unanswered == others)
        #expect(others * 3 == answered * (Flood.batch - 3) && answered > 3, "each connection answers three requests, and others follow it")
    }

    @Test("Requests that are due and find no connection are counted, and nobody sends them") func unsentRequests() async throws {
        let story = try await run(.open(perSecond: 100_000, connections: 1), FloodServer())
        let unsent = story.seconds.map(\.unsent).reduce(0, +)
        #expect(unsent > 0 && unsent % Flood.batch == 0)
        #expect(story.records.count + story.seconds.map(\.shed).reduce(0, +) == story.asked.count)
    }
}

/// A token service that answers a connection when it has a whole batch of requests from it, and then piece by piece.
private final class FloodServer: Sendable {
    struct Request: Sendable {
        let service: Int
        let app: String
        let key: String
        let user: String
        let marker: Int64
        let status: Int
        var isAnswered = false
    }

    private struct Peer {
        let socket: TCPSocket
        var received: [UInt8] = []
    }

    let address: SocketAddress
    private let listener: TCPListener
    private let found = Mutex<[Request]>([])
    private let isOver = Atomic(false)
    private let retryAfter: String
    /// So many answers on each connection.
    private let closesAfter: Int

    init(retryAfter: String = "retry-after: 1\r\n", closesAfter: Int = .max) throws {
        (self.retryAfter, self.closesAfter) = (retryAfter, closesAfter)
        listener = try TCPListener(host: "127.0.0.1", port: 0)
        address = listener.address
        try SystemThread.start(name: "flood-server") { [self] in
            do { try serve() } catch { Issue.record(error) }
        }
    }

    var requests: [Request] { found.withLock { $0 } }

    func end() { isOver.store(true, ordering: .relaxed) }

    static func notification(_ marker: Int64) -> PushID { PushID(high: 7, low: UInt64(marker)) }

    private func serve() throws {
        let poller = try Poller()
        try poller.add(listener.descriptor, key: 0, interest: .read)
        var peers: [UInt64: Peer] = [:]
        var last: UInt64 = 0
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while !isOver.load(ordering: .relaxed) {
            for event in try poller.wait(timeout: .milliseconds(20)) {
                guard event.key > 0 else {
                    while let socket = try listener.accept() {
                        last += 1
                        try poller.add(socket.descriptor, key: last, interest: .read)
                        peers[last] = Peer(socket: socket)
                    }
                    continue
                }
                guard var peer = peers.removeValue(forKey: event.key) else { continue }
                guard case .bytes(let count) = try peer.socket.read(into: &buffer) else { continue }
                peer.received += buffer[..<count]
                if try answer(&peer) { peers[event.key] = peer }
            }
        }
    }

    /// - Returns: whether the connection goes on.
    private func answer(_ peer: inout Peer) throws -> Bool {
        let texts = String(decoding: peer.received, as: UTF8.self).split(separator: "POST /v1/apps/")
        guard texts.count == Flood.batch, texts.allSatisfy({ $0.hasSuffix("}}") }) else { return true }
        peer.received = []
        var answers = ""
        for (number, text) in texts.enumerated() {
            func part(after start: String, before end: String) -> String {
                String(text.split(separator: start, maxSplits: 1)[1].split(separator: end, maxSplits: 1)[0])
            }
            let marker = Int64(part(after: #""marker":"#, before: "}")) ?? 0
            let status = [202, 429, 500, 503][Int(marker % 4)]
            let isAnswered = number < closesAfter
            let request = Request(
                service: address.port, app: String(text.prefix { $0 != "/" }), key: part(after: "idempotency-key: ", before: "\r\n"),
                user: part(after: #""user":""#, before: "\""), marker: marker, status: status, isAnswered: isAnswered)
            found.withLock { $0.append(request) }
            guard isAnswered else { continue }
            let body = status == 202 ? #"{"state":"accepted","id":"\#(Self.notification(marker))"}"# : "{}"
            let field = status == 429 || status == 503 ? retryAfter : ""
            answers += "HTTP/1.1 \(status) x\r\n\(field)content-length: \(body.utf8.count)\r\n\r\n\(body)"
        }
        let bytes = Array(answers.utf8)
        for start in stride(from: 0, to: bytes.count, by: 37) {
            _ = try peer.socket.write(bytes.span.extracting(start..<min(start + 37, bytes.count)))
        }
        return closesAfter >= Flood.batch
    }
}
