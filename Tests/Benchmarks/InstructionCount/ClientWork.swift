import APNs
import HTTP2
import OpenSSL
import PushModel

/// Requests through one connection of the APNs client, to an HTTP/2 server in memory that accepts each of them.
struct ClientWork: ~Copyable {
    private var client: ConnectionRun
    private let server: HTTP2ServerSession
    private var accepted = HeaderBlock()
    private var lastRequest: UInt64 = 0

    private init(_ client: consuming ConnectionRun, _ server: HTTP2ServerSession) {
        self.client = client
        self.server = server
        accepted.append(":status", "200")
    }

    static func begin() throws -> ClientWork {
        var settings = HTTP2ServerSettings()
        settings.connectionWindow = 1 << 30
        return ClientWork(
            try ConnectionRun.begin(try Content.credential(), trust: .system, now: Content.now),
            try HTTP2ServerSession(settings: settings))
    }

    /// - Returns: the requests that were counted.
    mutating func run(turns: Int, batches: Int) throws -> Int {
        // The first request opens the connection for more, and tables grow to their size.
        for _ in 0..<turns { try turn(batches, isCounted: false) }
        let answered = client.answered
        for _ in 0..<turns { try turn(batches, isCounted: true) }
        guard client.answered - answered == turns * batches * 100 else {
            throw UnexpectedResult(description: "\(client.answered) requests are answered")
        }
        return client.answered - answered
    }

    private mutating func turn(_ count: Int, isCounted: Bool) throws {
        let batches = try (0..<count).map { _ in try batch() }
        var (requests, answers): ([UInt8], [UInt8]) = ([], [])
        requests.reserveCapacity(1 << 20)
        if isCounted { try countedSend(batches, &requests) } else { try client.send(batches, into: &requests) }
        while !requests.isEmpty {
            try answer(requests, &answers)
            requests.removeAll(keepingCapacity: true)
            if isCounted { try countedReceive(answers) } else { try client.receive(answers) }
            answers.removeAll(keepingCapacity: true)
            // What waited for the connection to open.
            if isCounted { try countedSend([], &requests) } else { try client.send([], into: &requests) }
        }
    }

    @inline(never)
    private mutating func countedSend(_ batches: [APNsBatch], _ requests: inout [UInt8]) throws {
        try client.send(batches, into: &requests)
    }

    @inline(never)
    private mutating func countedReceive(_ answers: [UInt8]) throws { try client.receive(answers) }

    private func answer(_ requests: [UInt8], _ answers: inout [UInt8]) throws {
        try server.receive(requests.span)
        var streams: [Int32] = []
        server.forEachEvent { event in if case .request(let stream, _, _) = event { streams.append(stream) } }
        for stream in streams {
            var headers = accepted
            headers.append("apns-id", Content.id(UInt64(stream)).description)
            try server.respond(stream, headers: headers)
        }
        while try server.gatherOutput(into: &answers, limit: answers.count + 65_536) {}
    }

    private mutating func batch() throws -> APNsBatch {
        let requests = try (0..<100).map { index in
            lastRequest += 1
            return APNsRequest(
                id: Content.id(lastRequest << 1), token: try Content.token(lastRequest % 10_000),
                installation: Content.id(lastRequest << 1 | 1), ownerEpoch: 1, index: index)
        }
        return APNsBatch(
            tag: lastRequest, lane: .now, pushType: .alert, topic: Content.topic, priority: 10, collapsesByID: true,
            expiration: Content.now / 1000 + 86_400, expiresAt: Content.now + 86_400_000, payload: Content.payload, requests: requests)
    }
}
