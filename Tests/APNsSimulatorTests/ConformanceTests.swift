import APNsSimulator
import HTTP2
import OpenSSL
import TestIdentity
import Testing

/// Apple's table of reasons (Handling notification responses from APNs), row by row, each from its real cause: the request, the credential,
/// the connection, the device, or a server that is overloaded or stops. Only an internal error has no such cause, so a scenario makes it.
/// `RejectionTests` holds the variants of a cause and the order of the checks.
@Suite("Every status and reason of Apple's page comes from its cause", .timeLimit(.minutes(5)))
struct ConformanceTests {
    /// The status and body that a client receives, in an answer or in a GOAWAY (status 0).
    struct Received: Equatable {
        var status = 0
        let body: String

        init(_ response: PushClient.Response) {
            status = response.status
            body = response.body
        }

        init(status: Int, _ reason: String, timestamp: Int64? = nil) {
            self.status = status
            body = #"{"reason":"\#(reason)""# + (timestamp.map { #","timestamp":\#($0)"# } ?? "") + "}"
        }

        /// The next GOAWAY's text.
        init(goAwayOf client: PushClient) throws {
            try client.run { !$0.goAways.isEmpty }
            body = client.goAways[0].debug
        }
    }

    struct Row: Sendable, CustomTestStringConvertible {
        let reason: String
        let status: Int
        let timestamp: Int64?
        let cause: @Sendable (TestSimulator) throws -> Received
        let change: @Sendable (inout APNsSimulatorConfiguration) throws -> Void

        var testDescription: String { "\(status) \(reason)" }

        init(
            _ status: Int, _ reason: String, timestamp: Int64? = nil,
            configured change: @escaping @Sendable (inout APNsSimulatorConfiguration) throws -> Void = { _ in },
            _ cause: @escaping @Sendable (TestSimulator) throws -> Received
        ) {
            (self.status, self.reason, self.timestamp, self.cause, self.change) = (status, reason, timestamp, cause, change)
        }

        /// One push that differs from a good one.
        static func request(_ status: Int, _ reason: String, _ change: @escaping @Sendable (TestPush) -> TestPush) -> Row {
            Row(status, reason) { Received(try $0.client().send(change($0.push()))) }
        }
    }

    private static let moment: Int64 = 1_700_000_000_123

    static let rows: [Row] = requests + devices + credentials + certificates + troubles

    private static let requests: [Row] = [
        .request(400, "BadCollapseId") { $0.with("apns-collapse-id", String(repeating: "x", count: 65)) },
        .request(400, "BadDeviceToken") { $0.to("xyz") },
        .request(400, "BadExpirationDate") { $0.with("apns-expiration", "soon") },
        .request(400, "BadMessageId") { $0.with("apns-id", "1") },
        .request(400, "BadPriority") { $0.with("apns-priority", "7") },
        .request(400, "BadTopic") { $0.with("apns-topic", "com example") },
        .request(400, "DuplicateHeaders") { $0.adding("apns-topic", TestPush.topic) },
        .request(400, "InvalidPushType") { $0.with("apns-push-type", "loud") },
        .request(400, "MissingDeviceToken") { $0.path("/3/device/") },
        .request(400, "MissingTopic") { $0.with("apns-topic", nil) },
        .request(400, "PayloadEmpty") { $0.body("") },
        .request(403, "InvalidProviderToken") { $0.with("authorization", "bearer a.b.c") },
        .request(403, "MissingProviderToken") { $0.with("authorization", nil) },
        .request(404, "BadPath") { $0.path("/3/devices/" + TestPush.token) },
        .request(405, "MethodNotAllowed") { $0.method("PUT") },
        .request(413, "PayloadTooLarge") { $0.body(RejectionTests.payload(4097)) },
    ]

    private static let devices: [Row] = [
        Row(400, "DeviceTokenNotForTopic") { test in
            try test.simulator.install(TestPush.token, topics: ["com.example.other"])
            return Received(try test.client().send(test.push()))
        },
        Row(410, "Unregistered", timestamp: moment) { test in
            try test.simulator.install(TestPush.token)
            try test.simulator.uninstall(TestPush.token, since: moment)
            return Received(try test.client().send(test.push()))
        },
        Row(410, "ExpiredToken", timestamp: moment) { test in
            try test.simulator.install(TestPush.token)
            try test.simulator.expire(TestPush.token, since: moment)
            return Received(try test.client().send(test.push()))
        },
        Row(429, "TooManyRequests") { test in
            try test.simulator.install(TestPush.token)
            try test.simulator.setThrottle(Throttle(pushes: 1, per: .seconds(60)), TestPush.token)
            let client = try test.client()
            #expect(try client.send(test.push()).status == 200)
            return Received(try client.send(test.push()))
        },
    ]

    private static let credentials: [Row] = [
        Row(400, "TopicDisallowed", configured: { $0.keys = [try key(topics: ["com.example.other"])] }) {
            Received(try $0.client().send($0.push()))
        },
        Row(403, "Forbidden", configured: { $0.keys = [try key(isSuspended: true)] }) { Received(try $0.client().send($0.push())) },
        Row(403, "BadEnvironmentKeyInToken", configured: { $0.keys = [try key(environments: [.sandbox])] }) {
            Received(try $0.client().send($0.push()))
        },
        Row(403, "ExpiredProviderToken") { test in
            Received(try test.client().send(TestPush().with("authorization", test.bearer(secondsAgo: 3601))))
        },
        Row(403, "UnrelatedKeyIdInToken", configured: { $0.keys.append(try key(id: "KEY0000002", topics: [TestPush.topic])) }) { test in
            let client = try test.client()
            _ = try client.send(test.push())
            return Received(try client.send(TestPush().with("authorization", test.bearer(keyID: "KEY0000002"))))
        },
        Row(429, "TooManyProviderTokenUpdates") { test in
            let client = try test.client()
            _ = try client.send(test.push())
            return Received(try client.send(TestPush().with("authorization", test.bearer(secondsAgo: 5))))
        },
    ]

    private static let certificates: [Row] = [
        Row(403, "BadCertificate", configured: { $0.clientCAFile = try ProviderCertificates.shared.get().authority }) { test in
            let identity = try ProviderCertificates.shared.get().make("stranger", isSigned: false)
            return Received(try PushClient(port: test.simulator.productionPort, certificate: identity).send(TestPush()))
        },
        Row(403, "BadCertificateEnvironment", configured: { $0.clientCAFile = try ProviderCertificates.shared.get().authority }) { test in
            let identity = try ProviderCertificates.shared.get().make("elsewhere", marks: ProviderCertificates.sandbox)
            return try Received(goAwayOf: PushClient(port: test.simulator.productionPort, certificate: identity))
        },
    ]

    private static let troubles: [Row] = [
        Row(400, "IdleTimeout", configured: { $0.idleTimeout = .seconds(2) }) { try Received(goAwayOf: $0.client()) },
        // Only this row needs a scenario.
        Row(500, "InternalServerError", configured: { $0.scenario = try Scenario(text: internalError) }) {
            Received(try $0.client().send($0.push()))
        },
        Row(503, "ServiceUnavailable", configured: { $0.requestsPerSecond = 2 }) { test in
            let client = try test.client()
            for _ in 0..<2 { #expect(try client.send(test.push()).status == 200) }
            return Received(try client.send(test.push()))
        },
        Row(503, "Shutdown") { test in
            let (client, other) = (try test.client(), try test.client())
            for each in [client, other] { #expect(try each.send(test.push()).status == 200) }
            // The client submits the request and writes it only after the other client has the GOAWAY. That is too late, but this client
            // does not know it yet.
            try client.run { $0.hasFreeStream }
            let late = try client.submit(test.push())
            test.simulator.beginShutdown()
            try other.run { $0.goAways.first?.lastStream == .max }
            try client.run { $0.closed[late] != nil }
            return Received(try #require(client.responses[late]))
        },
    ]

    private static let internalError = #"""
        {"v":1,"name":"ill","requests":[{"do":[{"action":"answer","status":500,"reason":"InternalServerError"}]}]}
        """#

    private static func key(
        id: String = TestIdentity.keyID, environments: Set<SimulatorEnvironment> = [.production, .sandbox], topics: [String]? = nil,
        isSuspended: Bool = false
    ) throws -> ProviderKey {
        ProviderKey(
            teamID: TestIdentity.teamID, keyID: id, publicKey: try TestIdentity.shared.get().key.publicKey, environments: environments,
            topics: topics, isSuspended: isSuspended)
    }

    @Test("The row", arguments: rows)
    func row(_ row: Row) async throws {
        try await withSimulator(row.change) { test in
            let received = try row.cause(test)
            var expected = Received(status: row.status, row.reason, timestamp: row.timestamp)
            if received.status == 0 { expected.status = 0 }
            #expect(received == expected)
        }
    }

    @Test("The table is complete, and every reason has its status")
    func whole() {
        #expect(Set(Self.rows.map(\.reason)) == Set(RejectionReason.allCases.map(\.rawValue)))
        #expect(Self.rows.count == RejectionReason.allCases.count)
        for reason in RejectionReason.allCases {
            #expect(Self.rows.first { $0.reason == reason.rawValue }?.status == reason.status)
        }
    }

    @Test("The simulator sends an unknown reason word for word, and the connection goes on")
    func unknown() async throws {
        let rules = #"[{"positions":[1],"do":[{"action":"answer","status":418,"reason":"IAmATeapot"}]}]"#
        try await withSimulator {
            $0.scenario = try Scenario(text: #"{"v":1,"name":"odd","requests":\#(rules)}"#)
        } _: { test in
            let client = try test.client()
            #expect(Received(try client.send(test.push())) == Received(status: 418, "IAmATeapot"))
            #expect(try client.send(test.push()).status == 200)
        }
    }

    @Test(
        "An apns-id goes back as it came, and stands in the journal so and in lower case",
        arguments: [
            "03ff9497-8a6b-4f2c-9c86-0a1b2c3d4e5f", "03FF9497-8A6B-4F2C-9C86-0A1B2C3D4E5F", "03fF9497-8a6B-4f2C-9c86-0a1B2c3D4e5F",
            "A0000000-0000-4000-8000-00000000000f",
        ])
    func ids(_ id: String) async throws {
        let path = try TestIdentity.shared.get().directory + "/ids-\(id).journal"
        try await withSimulator {
            $0.journalFile = path
        } _: { test in
            try test.simulator.install(TestPush.token)
            #expect(try test.client().send(test.push().with("apns-id", id)).apnsID == id)
            var reader = try JournalFileReader(path: path)
            for entry in [test.simulator.journal().first, try reader.next()] {
                #expect(entry?.apnsID == id)
                #expect(entry?.uuid == id.lowercased())
            }
            #expect(try test.simulator.inbox(TestPush.token).map(\.apnsID) == [id])
        }
    }
}
