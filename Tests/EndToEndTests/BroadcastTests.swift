import Foundation
import PushAPI
import StrictJSON
import TestSupport
import Testing

/// A device that follows a channel, one that cannot, and a hundred thousand that only count; the test plays the apps and the backend.
@Suite("Broadcasts reach every Live Activity of a channel", .timeLimit(.minutes(10)))
struct BroadcastTests {
    private static let followers: Int64 = 100_000

    @Test("One request reaches all followers; through kills of every process each device shows the newest state, and then the end")
    func throughKills() async throws {
        try await withPlatform { platform in
            try await platform.startSimulator()
            let port = try FreePorts.choose(1)[0]
            var service = try await platform.startTokenService(at: port)
            var dispatcher = try await platform.startDispatcher("first")
            try await Client.with(platform, service) { client in
                let shop = client.service.app(Client.app)
                let channel = try #require(try await shop.openChannel("match", storage: .latest).channelId)
                try await client.simulator.post("/v1/channels/followers") { body in
                    body.field("channel_id", channel)
                    body.field("add", Self.followers)
                }
                let (new, old) = (Screen(client), Screen(client))
                for (screen, user) in [(new, "ada"), (old, "bob")] {
                    try await screen.prepare()
                    try await screen.signIn(user)
                }
                try await new.start("watch-1", of: "ada", following: channel)
                try await old.start("watch-2", of: "bob", channel: "match")

                try await shop.broadcast(Self.state(1), to: "match")
                try await new.shows("watch-1", 1, states: ["active"])
                let first = try #require(try await client.simulator.get("/v1/channels")["channels"]?[0])
                #expect(first["published"]?.integerValue == 1, "one request to APNs")
                #expect(first["receptions"]?.integerValue == Self.followers + 1)
                #expect(try await old.activities().first?["content_state"]?["number"]?.integerValue == 0, "it follows no channel")

                for number in 2...Int64(20) {
                    switch number {
                    case 5, 15:
                        await dispatcher.process.killAndWait()
                        dispatcher = try await platform.startDispatcher("after-\(number)")
                    case 10:
                        await service.process.killAndWait()
                        service = try await platform.startTokenService(at: port)
                    default: break
                    }
                    try await shop.broadcast(Self.state(number, toAll: true), to: "match")
                }
                for (screen, activity) in [(new, "watch-1"), (old, "watch-2")] {
                    try await screen.shows(activity, 20, states: ["active"])
                }
                try await shop.broadcast(Self.state(99, event: "end", toAll: true), to: "match")
                for (screen, activity) in [(new, "watch-1"), (old, "watch-2")] {
                    try await screen.shows(activity, 99, states: ["ended"])
                }
                let arrivals = try await client.simulator.get("/v1/arrivals")["arrivals"]?.arrayValue ?? []
                #expect(!arrivals.contains { $0["activity_result"]?.stringValue == "outdated" }, "a broadcast overtook a newer one")
                let last = try #require(try await client.simulator.get("/v1/channels")["channels"]?[0])
                // How many are superseded depends on the machine's pace; `BroadcastTests` of the token service say which ones.
                #expect(last["published"]?.integerValue ?? 0 >= 3)
            }
        }
    }

    private static func state(_ number: Int64, event: String = "update", toAll: Bool = false) throws -> PushAPI.NewBroadcast {
        let json = try PushAPI.JSON(bytes: Array(#"{"event":"\#(event)","content_state":{"number":\#(number)}}"#.utf8))
        var broadcast = PushAPI.NewBroadcast(.content(json))
        broadcast.includesActivities = toAll
        return broadcast
    }
}
