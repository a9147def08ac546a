import PushAPI
import PushModel
import StrictJSON
import TestSupport
import Testing

/// A device of the simulated APNs with the app on it.
struct Screen {
    let client: Client
    let installation = PushID.random()
    private let token = hexText((0..<32).map { _ in UInt8.random(in: .min ... .max) })
    private let startToken = hexText((0..<80).map { _ in UInt8.random(in: .min ... .max) })

    init(_ client: Client) { self.client = client }

    func prepare() async throws {
        try await client.simulator.put("/v1/devices/\(token)") { device in
            device.field("environment", "production")
            device.array("start_tokens") { tokens in
                tokens.object { start in
                    start.field("attributes_type", "Ride")
                    start.field("token", startToken)
                }
            }
        }
    }

    func signIn(_ user: String) async throws {
        try await client.service.put("/v1/apps/\(Client.app)/installations/\(installation)") { body in
            body.field("user", user)
            body.array("tokens") { tokens in
                tokens.object { $0.field("token", token) }
                tokens.object { start in
                    start.field("token", startToken)
                    start.field("purpose", "activity_start:Ride")
                }
            }
        }
    }

    /// The backend starts it, the device shows it, and the app reports its update token. Then the update that has waited arrives, with the
    /// number 0.
    /// - Parameter channel: The name of the channel whose states it shows, though it does not follow the channel.
    func start(_ id: String, of user: String, channel: String? = nil) async throws {
        try await send(id, of: user, channelID: nil)
        // Before the app has reported it: the update waits.
        try await client.update(id, of: user, 0, "update")
        let activity = try await eventually("\(id) is on the lock screen") {
            try await activities().first { $0["id"]?.stringValue == id }
        }
        try await client.service.put("/v1/apps/\(Client.app)/installations/\(installation)/activities/\(id)") { body in
            body.field("token", activity["update_token"]?.stringValue)
            body.field("channel", channel)
        }
        try await shows(id, 0, states: ["active"])
    }

    /// The backend starts it, and it follows a channel: it has no update token.
    func start(_ id: String, of user: String, following channelID: String) async throws {
        try await send(id, of: user, channelID: channelID)
        _ = try await eventually("\(id) is on the lock screen") { try await activities().first { $0["id"]?.stringValue == id } }
    }

    private func send(_ id: String, of user: String, channelID: String?) async throws {
        try await client.service.post("/v1/apps/\(Client.app)/notifications") { request in
            request.object("to") { $0.field("user", user) }
            request.field("activity", id)
            request.object("content") { content in
                content.field("event", "start")
                content.field("attributes_type", "Ride")
                content.object("attributes") { $0.field("id", id) }
                content.object("content_state") { $0.field("number", -1) }
                content.field("alert", "On the way")
                content.field("input_push_channel", channelID)
            }
        }
    }

    func activities() async throws -> [JSONValue] {
        try await client.simulator.get("/v1/devices/\(token)/activities")["activities"]?.arrayValue ?? []
    }

    func shows(_ id: String, _ number: Int64, states: [String]) async throws {
        _ = try await eventually("\(id) shows \(number)") {
            let activity = try await activities().first { $0["id"]?.stringValue == id }
            guard let activity, activity["content_state"]?["number"]?.integerValue == number else { return nil as Bool? }
            return states.contains(activity["state"]?.stringValue ?? "") ? true : nil
        }
    }
}

extension Client {
    func update(_ activity: String, of user: String, _ number: Int64, _ event: String, timestamp: String? = nil) async throws {
        try await service.post("/v1/apps/\(Self.app)/notifications") { request in
            request.object("to") { to in
                to.field("user", user)
                to.field("activity", activity)
            }
            request.object("content") { content in
                content.field("event", event)
                content.object("content_state") { $0.field("number", number) }
                content.field("timestamp", timestamp)
            }
        }
    }
}
