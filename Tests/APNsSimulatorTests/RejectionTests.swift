import APNsSimulator
import Testing

@Suite("Every refusal comes from its real cause", .timeLimit(.minutes(5)))
struct RejectionTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let name: String
        let reason: RejectionReason
        let change: @Sendable (TestPush) throws -> TestPush
        var testDescription: String { name }

        init(_ name: String, _ reason: RejectionReason, _ change: @escaping @Sendable (TestPush) throws -> TestPush) {
            self.name = name
            self.reason = reason
            self.change = change
        }
    }

    static let cases = [
        Case("a collapse id of 65 bytes", .badCollapseID) { $0.with("apns-collapse-id", String(repeating: "x", count: 65)) },
        Case("33 two-byte characters as collapse id", .badCollapseID) { $0.with("apns-collapse-id", String(repeating: "é", count: 33)) },
        Case("a token that is not hex", .badDeviceToken) { $0.to("zz" + TestPush.token) },
        Case("half a byte too much of a token", .badDeviceToken) { $0.to(TestPush.token + "a") },
        Case("a token of 257 bytes", .badDeviceToken) { $0.to(String(repeating: "ab", count: 257)) },
        Case("an expiration that is no number", .badExpirationDate) { $0.with("apns-expiration", "tomorrow") },
        Case("a negative expiration", .badExpirationDate) { $0.with("apns-expiration", "-1") },
        Case("an id that is no UUID", .badMessageID) { $0.with("apns-id", "12345") },
        Case("an id without its dashes", .badMessageID) { $0.with("apns-id", "03ff94978a6b4f2c9c860a1b2c3d4e5f") },
        Case("an id with a digit that is none", .badMessageID) { $0.with("apns-id", "03ff9497-8a6b-4f2c-9c86-0a1b2c3d4e5g") },
        Case("priority 7", .badPriority) { $0.with("apns-priority", "7") },
        Case("a priority that is no number", .badPriority) { $0.with("apns-priority", "high") },
        Case("a background push with priority 10", .badPriority) {
            $0.with("apns-push-type", "background").with("apns-priority", "10")
        },
        Case("a background push without priority, which means 10", .badPriority) { $0.with("apns-push-type", "background") },
        Case("a Live Activity with priority 1", .badPriority) {
            $0.with("apns-push-type", "liveactivity").with("apns-topic", TestPush.topic + ".push-type.liveactivity").with(
                "apns-priority", "1")
        },
        Case("a topic with a blank in it", .badTopic) { $0.with("apns-topic", "com.example shop") },
        Case("a VoIP push to the plain topic", .badTopic) { $0.with("apns-push-type", "voip") },
        Case("two topics", .duplicateHeaders) { $0.adding("apns-topic", TestPush.topic) },
        Case("an unknown header, twice", .duplicateHeaders) {
            $0.adding("content-type", "application/json").adding("x-trace", "1").adding("content-type", "text/plain")
        },
        Case("two provider tokens", .duplicateHeaders) { $0.adding("authorization", "bearer x") },
        Case("an unknown push type", .invalidPushType) { $0.with("apns-push-type", "shout") },
        Case("a push type in upper case", .invalidPushType) { $0.with("apns-push-type", "ALERT") },
        Case("no token", .missingDeviceToken) { $0.path("/3/device/") },
        Case("no topic", .missingTopic) { $0.with("apns-topic", nil) },
        Case("an empty topic", .missingTopic) { $0.with("apns-topic", "") },
        Case("no body", .payloadEmpty) { $0.body("") },
        Case("a body that is no JSON", .payloadEmpty) { $0.body("hello") },
        Case("a body that is no object", .payloadEmpty) { $0.body("[1]") },
        Case("4097 bytes of alert", .payloadTooLarge) { $0.body(payload(4097)) },
        Case("5121 bytes of VoIP", .payloadTooLarge) {
            $0.with("apns-push-type", "voip").with("apns-topic", TestPush.topic + ".voip").body(payload(5121))
        },
        Case("60,000 bytes", .payloadTooLarge) { $0.body(payload(60_000)) },
        Case("no provider token", .missingProviderToken) { $0.with("authorization", nil) },
        Case("an empty authorization", .missingProviderToken) { $0.with("authorization", "") },
        Case("a provider token that is none", .invalidProviderToken) { $0.with("authorization", "bearer a.b.c") },
        Case("another scheme", .invalidProviderToken) { $0.with("authorization", "basic " + ($0.headers.last?.value.dropFirst(7) ?? "")) },
        Case("another path", .badPath) { $0.path("/3/devices/" + TestPush.token) },
        Case("something after the token", .badPath) { $0.to(TestPush.token + "/x") },
        Case("the root", .badPath) { $0.path("/") },
        Case("PUT", .methodNotAllowed) { $0.method("PUT") },
        Case("GET", .methodNotAllowed) { $0.method("GET").body("") },
    ]

    static func payload(_ bytes: Int) -> String {
        let frame = #"{"aps":{"alert":""}}"#
        return #"{"aps":{"alert":""# + String(repeating: "x", count: bytes - frame.utf8.count) + #""}}"#
    }

    @Test("A request with one fault gets the status and reason of that fault", arguments: cases)
    func reason(of fault: Case) async throws {
        try await withSimulator { test in
            let client = try test.client()
            let response = try client.send(fault.change(test.push()))
            #expect(response.status == fault.reason.status)
            #expect(response.body == #"{"reason":"\#(fault.reason.rawValue)"}"#)
            #expect(response.contentType == "application/json")
            let entry = try #require(test.simulator.journal().last)
            #expect(entry.status == fault.reason.status)
            #expect(entry.reason == fault.reason.rawValue)
            #expect(test.simulator.counters.rejections == [.init(status: fault.reason.status, reason: fault.reason.rawValue): 1])
        }
    }

    @Test(
        "The simulator accepts a value just within a limit",
        arguments: [
            Case("a collapse id of 64 bytes", .badCollapseID) { $0.with("apns-collapse-id", String(repeating: "x", count: 64)) },
            Case("a token of 256 bytes", .badDeviceToken) { $0.to(String(repeating: "AB", count: 256)) },
            Case("a token of one byte", .badDeviceToken) { $0.to("ab") },
            Case("expiration 0", .badExpirationDate) { $0.with("apns-expiration", "0") },
            Case("priority 1", .badPriority) { $0.with("apns-priority", "1") },
            Case("a background push with priority 5", .badPriority) { $0.with("apns-push-type", "background").with("apns-priority", "5") },
            Case("no push type", .invalidPushType) { $0.with("apns-push-type", nil) },
            Case("4096 bytes of alert", .payloadTooLarge) { $0.body(payload(4096)) },
            Case("5120 bytes of VoIP", .payloadTooLarge) {
                $0.with("apns-push-type", "voip").with("apns-topic", TestPush.topic + ".voip").body(payload(5120))
            },
            Case("a capital B in bearer", .invalidProviderToken) {
                $0.with("authorization", "Bearer " + ($0.headers.last?.value.dropFirst(7) ?? ""))
            },
        ])
    func accepts(_ request: Case) async throws {
        try await withSimulator { test in
            let response = try test.client().send(request.change(test.push()))
            #expect(response.status == 200)
            #expect(response.body == "")
        }
    }

    @Test("If several things are wrong, the simulator reports the first in Apple's order")
    func order() async throws {
        try await withSimulator { test in
            let client = try test.client()
            var push = TestPush(method: "PUT", path: "/3/device/zz", headers: [], body: "")
                .with("apns-id", "x").with("apns-collapse-id", String(repeating: "x", count: 65)).with("apns-expiration", "x")
                .with("apns-priority", "7").with("apns-push-type", "x")
            var reasons: [String] = []
            let repairs: [(inout TestPush) throws -> Void] = [
                { $0 = $0.with("apns-id", nil) }, { $0 = $0.method("POST") }, { $0 = $0.with("apns-topic", TestPush.topic) },
                { $0 = $0.with("apns-collapse-id", nil) }, { $0 = $0.with("apns-expiration", nil) }, { $0 = $0.with("apns-priority", nil) },
                { $0 = $0.with("apns-push-type", nil) }, { $0 = $0.to(TestPush.token) },
                { $0 = $0.with("authorization", test.token) }, { $0 = $0.body(TestPush.alert) },
            ]
            for repair in repairs {
                reasons.append(try client.send(push).body)
                try repair(&push)
            }
            let expected: [RejectionReason] = [
                .badMessageID, .methodNotAllowed, .missingTopic, .badCollapseID, .badExpirationDate, .badPriority, .invalidPushType,
                .badDeviceToken, .missingProviderToken, .payloadEmpty,
            ]
            #expect(reasons == expected.map { #"{"reason":"\#($0.rawValue)"}"# })
            #expect(try client.send(push).status == 200)
        }
    }
}
