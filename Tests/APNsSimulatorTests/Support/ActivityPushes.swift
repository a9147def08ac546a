import APNsSimulator
import Testing

/// A device that can start Live Activities, and the pushes to them.
enum ActivityPushes {
    static let start = String(repeating: "57", count: 64)
    static let type = "RideAttributes"
    static let topic = TestPush.topic + ".push-type.liveactivity"

    /// Installs the device that ``TestPush/token`` belongs to.
    static func install(_ test: TestSimulator, topics: [String]? = nil, hasFrequentUpdates: Bool = false) throws {
        try test.simulator.install(
            TestPush.token, topics: topics, name: "phone", startTokens: [type: start], hasFrequentUpdates: hasFrequentUpdates)
    }

    /// A start that starts something, unless `aps` replaces a part of it.
    static func start(_ test: TestSimulator, id: String = "ride-1", _ changes: [String: String?] = [:]) -> TestPush {
        var fields: [String: String?] = [
            "event": #""start""#, "timestamp": String(test.clock.now / 1000), "alert": #"{"title":"Your ride","body":"comes"}"#,
            "attributes-type": #""\#(type)""#, "attributes": #"{"id":"\#(id)","from":"Gate 4"}"#, "content-state": #"{"eta":5}"#,
        ]
        for (key, value) in changes { fields[key] = value }
        return push(test, start, fields)
    }

    static func change(
        _ test: TestSimulator, _ token: String, _ event: String = "update", timestamp: Int64? = nil, eta: Int,
        _ more: [String: String?] = [:]
    ) -> TestPush {
        let fields: [String: String?] = [
            "event": #""\#(event)""#, "timestamp": String(timestamp ?? test.clock.now / 1000), "content-state": #"{"eta":\#(eta)}"#,
        ]
        return push(test, token, fields.merging(more) { $1 })
    }

    static func push(_ test: TestSimulator, _ token: String, _ aps: [String: String?]) -> TestPush {
        let fields = aps.compactMap { key, value in value.map { #""\#(key)":\#($0)"# } }.sorted().joined(separator: ",")
        return test.push().to(token).with("apns-topic", topic).with("apns-push-type", "liveactivity").body(#"{"aps":{\#(fields)}}"#)
    }

    /// Starts an activity by push.
    /// - Returns: Its update token.
    static func begin(_ test: TestSimulator, _ client: PushClient, id: String = "ride-1") throws -> String {
        #expect(try client.send(start(test, id: id)).status == 200)
        return try #require(activity(test, id).updateToken)
    }

    static func activity(_ test: TestSimulator, _ id: String = "ride-1") throws -> ActivitySummary {
        try #require(try test.simulator.activities(TestPush.token).first { $0.id == id })
    }

    /// What became of the last request.
    static func result(_ test: TestSimulator) -> ActivityResult? { test.simulator.journal().last?.activity }
}
