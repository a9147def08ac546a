import StrictJSON
import Testing

@Suite("The path of one notification, with every program as a process", .timeLimit(.minutes(5)))
struct PathOfOneNotificationTests {
    @Test("The demonstration of deploy/run does all it says") func demonstration() async throws {
        try await withPlatform { platform in
            try await platform.startSimulator()
            let tokenService = try await platform.startTokenService()
            try await platform.startDispatcher("dispatcher-1")
            try await platform.startDispatcher("dispatcher-2")
            let (ending, output) = try await platform.run(
                "pushctl",
                ["demo", "--url", tokenService.url, "--key-file", "\(platform.folder)/admin.key", "--simulator", platform.simulatorURL])
            #expect(ending == .exited(0), "\(output)")
        }
    }

    /// DESIGN.md section 8, promise 3: the job is in the queue, no dispatcher runs; the one that starts later must hear of the logout before it takes the job.
    @Test("A logout stops what was queued before it, also for a dispatcher that starts later") func logoutBeforeTheDispatcher() async throws
    {
        try await withPlatform { platform in
            try await platform.startSimulator()
            let tokenService = try await platform.startTokenService()
            try await Client.with(platform, tokenService) { client in
                let devices = try await client.registerDevices(2, user: "ada")
                let id = try await client.send("secret", to: "ada")
                #expect(try await client.logOut(devices[0])["fence"]?.stringValue == "effective")
                try await platform.startDispatcher()
                let status = try await client.completed(id)
                #expect(status.count("fenced") == 1)
                #expect(status.count("accepted") == 1)
                #expect(try await client.arrivals().map(\.token) == [devices[1].token])
            }
        }
    }

    /// DESIGN.md section 8, promise 6.
    @Test("Nothing is sent after its expiry") func expiry() async throws {
        try await withPlatform { platform in
            try await platform.startSimulator()
            let tokenService = try await platform.startTokenService()
            try await Client.with(platform, tokenService) { client in
                let devices = try await client.registerDevices(1, user: "ada")
                let late = try await client.send("too late", to: "ada", ttlSeconds: 1)
                try await Task.sleep(for: .milliseconds(1100))  // the passing of time itself is what is tested
                try await platform.startDispatcher()
                let inTime = try await client.send("in time", to: "ada")
                #expect(try await client.completed(late).count("expired") == 1)
                #expect(try await client.completed(inTime).count("accepted") == 1)
                #expect(try await client.arrivals().map(\.token) == [devices[0].token])
            }
        }
    }
}
