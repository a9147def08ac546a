import APNsSimulator
import HTTP2
import OpenSSL
import Testing

/// APNS.md 4.2, row by row. What follows from the request, the credential, the connection or the device is caused for real; what is
/// Apple's own trouble has no other cause than a script. `RejectionTests` holds the variants of a cause, and the order of the checks.
@Suite("Every status and reason of APNS.md 4.2 comes from its cause", .timeLimit(.minutes(2)))
struct ConformanceTests {
    /// What a client is told: in an answer, or in a GOAWAY (status 0).
    struct Told: Equatable {
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

        init(goAway: String) { body = goAway }
    }

    struct Row: Sendable, CustomTestStringConvertible {
        let reason: String
        let status: Int
        let timestamp: Int64?
        let cause: @Sendable (TestSimulator) throws -> Told
        let change: @Sendable (inout APNsSimulatorConfiguration) throws -> Void

        var testDescription: String { "\(status) \(reason)" }

        init(
            _ status: Int, _ reason: String, timestamp: Int64? = nil,
            configured change: @escaping @Sendable (inout APNsSimulatorConfiguration) throws -> Void = { _ in },
            _ cause: @escaping @Sendable (TestSimulator) throws -> Told
        ) {
            (self.status, self.reason, self.timestamp, self.cause, self.change) = (status, reason, timestamp, cause, change)
        }

        /// One push that differs from a good one.
        static func request(_ status: Int, _ reason: String, _ change: @escaping @Sendable (TestPush) -> TestPush) -> Row {
            Row(status, reason) { Told(try $0.client().send(change($0.push()))) }
        }
    }

    private static let moment: Int64 = 1_700_000_000_123

    static let rows: [Row] = requests + devices + credentials + troubles

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
            return Told(try test.client().send(test.push()))
        },
        Row(410, "Unregistered", timestamp: moment) { test in
            try test.simulator.install(TestPush.token)
            try test.simulator.uninstall(TestPush.token, since: moment)
            return Told(try test.client().send(test.push()))
        },
    ]

    private static let credentials: [Row] = [
        Row(400, "TopicDisallowed", configured: { $0.keys = [try key(topics: ["com.example.other"])] }) {
            Told(try $0.client().send($0.push()))
        },
        Row(403, "Forbidden", configured: { $0.keys = [try key(isSuspended: true)] }) { Told(try $0.client().send($0.push())) },
        Row(403, "BadEnvironmentKeyInToken", configured: { $0.keys = [try key(environments: [.sandbox])] }) {
            Told(try $0.client().send($0.push()))
        },
        Row(403, "ExpiredProviderToken") { test in
            Told(try test.client().send(TestPush().with("authorization", test.bearer(secondsAgo: 3601))))
        },
        Row(403, "UnrelatedKeyIdInToken", configured: { $0.keys.append(try key(id: "KEY0000002", topics: [TestPush.topic])) }) { test in
            let client = try test.client()
            _ = try client.send(test.push())
            return Told(try client.send(TestPush().with("authorization", test.bearer(keyID: "KEY0000002"))))
        },
        Row(429, "TooManyProviderTokenUpdates") { test in
            let client = try test.client()
            _ = try client.send(test.push())
            return Told(try client.send(TestPush().with("authorization", test.bearer(secondsAgo: 5))))
        },
    ]

    private static let troubles: [Row] = [
        Row(400, "IdleTimeout", configured: { $0.idleTimeout = .milliseconds(50) }) { test in
            let client = try test.client()
            try client.run { !$0.goAways.isEmpty }
            return Told(goAway: client.goAways[0].debug)
        },
        Row(503, "Shutdown") { test in
            let client = try test.client()
            _ = try client.send(test.push())
            test.simulator.goAway(reason: .shutdown)
            try client.run { !$0.goAways.isEmpty }
            return Told(goAway: client.goAways[0].debug)
        },
        scripted(403, "BadCertificate"), scripted(403, "BadCertificateEnvironment"), scripted(410, "ExpiredToken", timestamp: moment),
        scripted(429, "TooManyRequests"), scripted(500, "InternalServerError"), scripted(503, "ServiceUnavailable"),
    ]

    private static func scripted(_ status: Int, _ reason: String, timestamp: Int64? = nil) -> Row {
        Row(status, reason, timestamp: timestamp) { test in
            try test.simulator.script(TestPush.token, [.answer(status: status, reason: reason, timestamp: timestamp)])
            return Told(try test.client().send(test.push()))
        }
    }

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
            let told = try row.cause(test)
            var expected = Told(status: row.status, row.reason, timestamp: row.timestamp)
            if told.status == 0 { expected.status = 0 }
            #expect(told == expected)
        }
    }

    @Test("The table is whole, and every reason has the status that it says")
    func whole() {
        #expect(Set(Self.rows.map(\.reason)) == Set(RejectionReason.allCases.map(\.rawValue)))
        #expect(Self.rows.count == RejectionReason.allCases.count)
        for reason in RejectionReason.allCases {
            #expect(Self.rows.first { $0.reason == reason.rawValue }?.status == reason.status)
        }
    }
}
