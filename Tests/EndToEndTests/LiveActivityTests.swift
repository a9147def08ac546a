import Foundation
import PushAPI
import PushModel
import StrictJSON
import TestSupport
import Testing

/// A phone and a shared iPad with Live Activities, as the simulated APNs plays them; the test plays the apps and the backend.
@Suite("Live Activities show the newest state that their owners may see", .timeLimit(.minutes(10)))
struct LiveActivityTests {
    private static let updates = 50

    @Test("Fifty updates, kills of every process and changing users: each shows its newest state, and none is left over")
    func throughKills() async throws {
        try await withPlatform { platform in
            try await platform.startSimulator()
            let port = try FreePorts.choose(1)[0]
            var service = try await platform.startTokenService(at: port)
            var dispatcher = try await platform.startDispatcher("first")
            try await Client.with(platform, service) { client in
                let (phone, iPad) = (Screen(client), Screen(client))
                for screen in [phone, iPad] { try await screen.prepare() }
                try await phone.signIn("ada")
                try await iPad.signIn("bob")
                try await phone.start("ride-1", of: "ada", client)
                try await phone.start("ride-2", of: "ada", client)
                try await iPad.start("pass-1", of: "bob", client)

                var random = SeededGenerator(state: 29)
                var newest: [String: Int64] = [:]
                var live = ["ride-1", "ride-2", "pass-1"]
                for number in 1...Int64(Self.updates) {
                    switch number {
                    case 10, 35:
                        await dispatcher.process.killAndWait()
                        dispatcher = try await platform.startDispatcher("after-\(number)")
                    case 20, 40:
                        await service.process.killAndWait()
                        service = try await platform.startTokenService(at: port)
                    case 25:
                        // The shared iPad changes hands while an update for its former user is under way.
                        try await client.update("pass-1", number, "update")
                        try await iPad.signIn("cleo")
                        live = ["ride-1", "ride-2", "pass-2"]
                        try await iPad.start("pass-2", of: "cleo", client)
                    default: break
                    }
                    let activity = try #require(live.randomElement(using: &random))
                    try await client.update(activity, number, "update")
                    newest[activity] = number
                    if Bool.random(using: &random) { try await Task.sleep(for: .milliseconds(Int.random(in: 1...80, using: &random))) }
                }
                for (activity, number) in newest where live.contains(activity) {
                    let screen = activity.hasPrefix("ride") ? phone : iPad
                    try await screen.shows(activity, number, states: ["active"])
                }
                for activity in live { try await client.update(activity, 999, "end") }
                for (screen, activities) in [(phone, ["ride-1", "ride-2"]), (iPad, ["pass-2"])] {
                    for activity in activities { try await screen.shows(activity, 999, states: ["ended"]) }
                }
                let all = try await phone.activities() + (try await iPad.activities())
                #expect(all.count == 4 && all.allSatisfy { $0["state"]?.stringValue != "active" }, "\(all)")
                #expect(all.first { $0["id"]?.stringValue == "pass-1" }?["state"]?.stringValue == "dismissed", "it was bob's")
                let arrivals = try await client.simulator.get("/v1/arrivals")["arrivals"]?.arrayValue ?? []
                let results = arrivals.compactMap { $0["activity_result"]?.stringValue }
                #expect(!results.contains("outdated"), "an update overtook a newer one")
                #expect(results.count { $0 == "updated" } > 10)
            }
        }
    }
}

extension LiveActivityTests {
    /// Promise 15 (docs/promises.md): the first update has left without an answer when its dispatcher dies, and goes again.
    @Test("An update that goes again after a kill does not overtake the newer one") func order() async throws {
        try await withPlatform { platform in
            try await platform.startSimulator()
            let service = try await platform.startTokenService()
            let dispatcher = try await platform.startDispatcher("first")
            try await Client.with(platform, service) { client in
                let phone = Screen(client)
                try await phone.prepare()
                try await phone.signIn("ada")
                try await phone.start("ride", of: "ada", client)
                try await phone.shows("ride", 0, states: ["active"])
                let token = try #require(try await phone.activities().first?["update_token"]?.stringValue)
                let sent = try await client.arrivals().count { $0.token == token }
                try await client.simulator.put("/v1/devices/\(token)/script") { body in
                    body.array("answers") { $0.object { $0.field("action", "silence") } }
                    body.field("then", "accept")
                }
                // Seconds apart, so that the device can tell which one is newer.
                try await client.update("ride", 1, "update", timestamp: "2099-01-01T00:00:00Z")
                _ = try await eventually("the first update has left") {
                    try await client.arrivals().count { $0.token == token } > sent ? true : nil
                }
                try await client.update("ride", 2, "update", timestamp: "2099-01-01T00:00:10Z")
                await dispatcher.process.killAndWait()
                try await platform.startDispatcher("second")
                try await phone.shows("ride", 2, states: ["active"])
                _ = try await eventually("both have their outcomes") {
                    try await client.arrivals().count { $0.token == token } == sent + 3 ? true : nil
                }
                let arrivals = try await client.simulator.get("/v1/arrivals")["arrivals"]?.arrayValue ?? []
                #expect(!arrivals.contains { $0["activity_result"]?.stringValue == "outdated" })
            }
        }
    }
}

/// A device of the simulated APNs with the app on it.
private struct Screen {
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

    /// The backend starts it, the device shows it, and the app reports its update token.
    func start(_ id: String, of user: String, _ client: Client) async throws {
        try await client.service.post("/v1/apps/\(Client.app)/notifications") { request in
            request.object("to") { $0.field("user", user) }
            request.field("activity", id)
            request.object("content") { content in
                content.field("event", "start")
                content.field("attributes_type", "Ride")
                content.object("attributes") { $0.field("id", id) }
                content.object("content_state") { $0.field("number", 0) }
                content.field("alert", "On the way")
            }
        }
        // Before the app has reported it: the update waits.
        try await client.update(id, 0, "update")
        let activity = try await eventually("\(id) is on the lock screen") {
            try await activities().first { $0["id"]?.stringValue == id }
        }
        try await client.service.put("/v1/apps/\(Client.app)/installations/\(installation)/activities/\(id)") { body in
            body.field("token", activity["update_token"]?.stringValue)
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
    fileprivate func update(_ activity: String, _ number: Int64, _ event: String, timestamp: String? = nil) async throws {
        try await service.post("/v1/apps/\(Self.app)/notifications") { request in
            request.object("to") { $0.field("activity", activity) }
            request.object("content") { content in
                content.field("event", event)
                content.object("content_state") { $0.field("number", number) }
                content.field("timestamp", timestamp)
            }
        }
    }
}
