import Foundation
import PushAPI
import StrictJSON
import Testing

@Suite("Holds, with every program as a process", .timeLimit(.minutes(5)))
struct HoldTests {
    /// Runs `pushctl` as the administrator.
    private static func pushctl(_ platform: Platform, _ service: RunningService, _ arguments: String...) async throws -> String {
        let (ending, output) = try await platform.run(
            "pushctl", arguments + ["--url", service.url, "--key-file", "\(platform.folder)/admin.key"])
        try #require(ending == .exited(0), "\(output)")
        return output
    }

    /// The id in the first row of a table of holds.
    private static func id(_ table: String) throws -> String {
        let row = try #require(table.split(separator: "\n").dropFirst().first)
        return String(try #require(row.split(separator: " ").first))
    }

    /// Waits until a dispatcher reports the notification's only delivery as held.
    private static func isHeld(_ id: String, _ reason: String, _ client: Client) async throws {
        _ = try await eventually("\(id) is \(reason)") {
            let attempt = try await client.status(id)["deliveries"]?.arrayValue?.first?["last_attempt"]
            return attempt?["class"]?.stringValue == "held" && attempt?["reason"]?.stringValue == reason ? true : nil
        }
    }

    /// First a hold of published jobs in a dispatcher, then of later jobs in the outbox, then with a dispatcher that starts later.
    @Test("Held notifications arrive when the hold is lifted, and others at once, also after a restart of a dispatcher")
    func heldAndLifted() async throws {
        try await withPlatform { platform in
            try await platform.startSimulator()
            let tokenService = try await platform.startTokenService()
            try await Client.with(platform, tokenService) { client in
                let ada = try await client.registerDevices(1, user: "ada")[0]
                let grace = try await client.registerDevices(1, user: "grace")[0]
                // The job is in the broker before the hold, and no dispatcher takes it.
                let queued = try await client.send("queued", to: "ada")
                try await platform.waitUntilQueued()
                let set = try await Self.pushctl(
                    platform, tokenService, "hold", "set", "shop", "--notification", queued, "--reason", "wrong price")
                #expect(set.contains("live") && !set.contains("unconfirmed"), "\(set)")
                let first = try await platform.startDispatcher("dispatcher-1")
                let free = try await client.send("free", to: "grace")
                #expect(try await client.completed(free).count("accepted") == 1)
                try await Self.isHeld(queued, "notification_held", client)
                await first.process.killAndWait()
                // Now hold the whole app. Notifications that are accepted from now on stay in the outbox.
                let app = try await Self.pushctl(platform, tokenService, "hold", "set", "shop", "--reason", "all of it")
                let outbox = try await client.send("outbox", to: "grace")
                try await platform.startDispatcher("dispatcher-2")
                try await Self.isHeld(queued, "app_held", client)
                #expect(try await client.arrivals().map(\.token) == [grace.token])

                _ = try await Self.pushctl(platform, tokenService, "hold", "lift", "shop", try Self.id(app))
                #expect(try await client.completed(outbox).count("accepted") == 1)
                #expect(try await client.status(queued)["state"]?.stringValue == "sending")
                _ = try await Self.pushctl(platform, tokenService, "hold", "lift", "shop", try Self.id(set))
                #expect(try await client.completed(queued).count("accepted") == 1)
                #expect(try await Set(client.arrivals().map(\.token)) == [ada.token, grace.token])
                #expect(try await Self.pushctl(platform, tokenService, "hold", "list", "shop") == "nothing is held\n")
                #expect(try await Self.pushctl(platform, tokenService, "hold", "list", "--all").contains("lifted by"))
            }
        }
    }

    @Test("A hold that ends by itself releases its jobs, in the broker and in the outbox")
    func endsByItself() async throws {
        try await withPlatform { platform in
            try await platform.startSimulator()
            let tokenService = try await platform.startTokenService()
            try await Client.with(platform, tokenService) { client in
                _ = try await client.registerDevices(1, user: "ada")
                let queued = try await client.send("queued", to: "ada")
                try await platform.waitUntilQueued()
                _ = try await Self.pushctl(
                    platform, tokenService, "hold", "set", "--all-apps", "--lane", "now", "--reason", "r", "--for", "5s")
                let outbox = try await client.send("outbox", to: "ada")
                try await platform.startDispatcher()
                for id in [queued, outbox] { #expect(try await client.completed(id).count("accepted") == 1) }
                #expect(try await Self.pushctl(platform, tokenService, "hold", "list", "--all").contains("expired"))
            }
        }
    }

    @Test("pushctl cancels, and says when a user is not to be disturbed")
    func cancelAndQuietHours() async throws {
        try await withPlatform { platform in
            let tokenService = try await platform.startTokenService()
            try await Client.with(platform, tokenService) { client in
                _ = try await client.registerDevices(1, user: "ada")
                let id = try await client.send("left in the broker", to: "ada")
                try await platform.waitUntilQueued()
                let keyFile = "\(platform.folder)/app.key"
                try Data((client.service.key ?? "").utf8).write(to: URL(fileURLWithPath: keyFile))
                try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: keyFile)
                func pushctl(_ arguments: String...) async throws -> String {
                    let (ending, output) = try await platform.run(
                        "pushctl", arguments + ["--url", tokenService.url, "--key-file", keyFile])
                    return "\(ending == .exited(0) ? "done" : "failed"): \(output)"
                }
                for _ in 1...2 {
                    #expect(try await pushctl("cancel", "shop", id) == "done: Cancelled. 1 delivery was still stoppable.\n")
                }
                #expect(try await pushctl("quiet-hours", "show", "shop", "ada").hasPrefix("failed: "))
                let hours = "done: from 22:00 to 07:00, where each device is\n"
                #expect(try await pushctl("quiet-hours", "set", "shop", "ada", "22:00", "07:00") == hours)
                #expect(try await pushctl("quiet-hours", "show", "shop", "ada") == hours)
                #expect(try await pushctl("quiet-hours", "clear", "shop", "ada") == "done: no quiet hours\n")
                #expect(try await pushctl("hold", "set", "shop", "--reason", "r").contains("403"), "it is the administrator's")
            }
        }
    }
}
