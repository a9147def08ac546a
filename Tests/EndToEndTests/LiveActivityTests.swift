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

    private static func user(_ activity: String) -> String {
        switch activity {
        case "pass-1": "bob"
        case "pass-2": "cleo"
        default: "ada"
        }
    }

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
                try await phone.start("ride-1", of: "ada")
                try await phone.start("ride-2", of: "ada")
                try await iPad.start("pass-1", of: "bob")

                var random = SeededGenerator(seed: 29)
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
                        try await client.update("pass-1", of: "bob", number, "update")
                        try await iPad.signIn("cleo")
                        live = ["ride-1", "ride-2", "pass-2"]
                        try await iPad.start("pass-2", of: "cleo")
                    default: break
                    }
                    let activity = try #require(live.randomElement(using: &random))
                    try await client.update(activity, of: Self.user(activity), number, "update")
                    newest[activity] = number
                    if Bool.random(using: &random) { try await Task.sleep(for: .milliseconds(Int.random(in: 1...80, using: &random))) }
                }
                for (activity, number) in newest where live.contains(activity) {
                    let screen = activity.hasPrefix("ride") ? phone : iPad
                    try await screen.shows(activity, number, states: ["active"])
                }
                for activity in live { try await client.update(activity, of: Self.user(activity), 999, "end") }
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
                try await phone.start("ride", of: "ada")
                let token = try #require(try await phone.activities().first?["update_token"]?.stringValue)
                let sent = try await client.arrivals().count { $0.token == token }
                try await client.simulator.put("/v1/devices/\(token)/script") { body in
                    body.array("answers") { $0.object { $0.field("action", "silence") } }
                    body.field("then", "accept")
                }
                // Seconds apart, so that the device can tell which one is newer.
                try await client.update("ride", of: "ada", 1, "update", timestamp: "2099-01-01T00:00:00Z")
                _ = try await eventually("the first update has left") {
                    try await client.arrivals().count { $0.token == token } > sent ? true : nil
                }
                try await client.update("ride", of: "ada", 2, "update", timestamp: "2099-01-01T00:00:10Z")
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
