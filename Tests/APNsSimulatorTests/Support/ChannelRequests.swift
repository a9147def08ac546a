import APNsSimulator
import Testing

/// Requests about channels, and their client.
enum ChannelRequests {
    private static let app = TestPush.topic
    private static let state = #"{"aps":{"event":"update","timestamp":7,"content-state":{"score":1}}}"#

    static func manage(_ test: TestSimulator, _ environment: SimulatorEnvironment = .production) throws -> PushClient {
        try PushClient(port: test.simulator.port(environment, isManagement: true))
    }

    /// A request with nothing but its token.
    static func request(_ test: TestSimulator, _ method: String, _ path: String, channel: String? = nil, _ body: String = "")
        -> TestPush
    {
        var push = TestPush(method: method, path: path, headers: [("authorization", test.token)], body: body)
        if let channel { push = push.with("apns-channel-id", channel) }
        return push
    }

    static func create(_ test: TestSimulator, _ client: PushClient, policy: Int = 1) throws -> String {
        let made = try client.send(
            request(test, "POST", "/1/apps/\(app)/channels", #"{"message-storage-policy":\#(policy),"push-type":"LiveActivity"}"#))
        #expect(made.status == 201)
        #expect(made.body.isEmpty)
        return try #require(made.channelID)
    }

    static func broadcast(_ test: TestSimulator, _ channel: String?) -> TestPush {
        request(test, "POST", "/4/broadcasts/apps/\(app)", channel: channel, state).with("apns-push-type", "liveactivity")
            .with("apns-priority", "10")
    }
}
