import Foundation
import PushAPI
import StrictJSON
import TestSupport
import Testing

@Suite("The path of one notification, with every program as a process", .timeLimit(.minutes(5)))
struct PathOfOneNotificationTests {
    @Test("The demonstration of deploy/run does everything that it prints") func demonstration() async throws {
        try await withPlatform { platform in
            try await platform.startSimulator(["UNKNOWN_DEVICES": "reject"])
            let tokenService = try await platform.startTokenService()
            let dispatchers = [try await platform.startDispatcher("dispatcher-1"), try await platform.startDispatcher("dispatcher-2")]
            let (ending, output) = try await platform.shell(
                "deploy/scripts/demonstration.sh \(platform.simulatorURL) \(tokenService.url) \(platform.simulatorURL)",
                [
                    "PUSHCTL": "\(platform.programs)/pushctl", "README": "\(repositoryFolder)/README.md", "PUSH_URL": tokenService.url,
                    "PUSH_KEY_FILE": "\(platform.folder)/admin.key",
                ])
            #expect(ending == .exited(0), "\(output)")
            let start = try #require(output.range(of: "export PUSH_URL="), "\(output)")
            let shown = output[..<start.lowerBound]
            #expect(shown.matches(of: /Ada's iPhone +accepted \(200\) +\d+(\.\d)? m?s\n/).count >= 2, "\(shown)")
            #expect(!shown.contains(/[0-9a-f]{8}-[0-9a-f]{4}-/), "ids are for programs: \(shown)")
            #expect(shown.contains("\nNext, in a browser: \(platform.simulatorURL) shows"), "\(shown)")
            try await paste(String(output[start.lowerBound...]), twiceInto: platform)
            for service in [tokenService] + dispatchers { try await checkMetrics(of: service, platform) }
        }
    }

    /// The page of a process that has done work, with the metrics of its broker connections, which only `Main` adds.
    private func checkMetrics(of service: RunningService, _ platform: Platform) async throws {
        let (ending, page) = try await platform.shell("curl -fsS '\(service.url)/metrics'")
        #expect(ending == .exited(0), "\(page)")
        #expect(MetricsLint.faults(of: page) == [])
        #expect(MetricsLint.names(in: page).isSuperset(of: ["push_broker_published_total", "push_broker_connected"]))
    }

    /// The printed commands are those of the README, and they also work the second time.
    private func paste(_ commands: String, twiceInto platform: Platform) async throws {
        let file = "\(platform.folder)/pasted"
        try commands.write(toFile: file, atomically: true, encoding: .utf8)
        // Runs the commands one after another in one shell, as a person pastes them.
        let (ending, output) = try await platform.shell(". '\(file)'; . '\(file)'")
        #expect(ending == .exited(0), "\(output)")
        let answers = output.split(separator: "\n")
        #expect(
            answers.count == 8 && answers.allSatisfy { $0.hasPrefix("{") && $0.hasSuffix("}") }, "each answer ends its line: \(output)")
        let ids = Set(answers.compactMap { $0.firstMatch(of: /^{"id":"([^"]+)","app":"shop","state":"accepted"/)?.output.1 })
        #expect(ids.count == 2, "a second notification was sent: \(output)")
        try await PushAPI.with(baseURL: platform.simulatorURL, key: nil) { simulator in
            let inbox = try await simulator.get("/v1/devices/00aa11bb22cc33dd44ee55ff66778899/inbox?wait_count=2")
            #expect(inbox["count"]?.integerValue == 2)
        }
    }

    /// Promise 3 (docs/promises.md): the job is in the queue and no dispatcher runs. A dispatcher that starts later must read the logout
    /// before it takes the job.
    @Test("A logout stops earlier queued jobs, also for a dispatcher that starts later") func logoutBeforeTheDispatcher() async throws {
        try await withPlatform { platform in
            try await platform.startSimulator()
            let tokenService = try await platform.startTokenService()
            try await Client.with(platform, tokenService) { client in
                let devices = try await client.registerDevices(2, user: "ada")
                let id = try await client.send("secret", to: "ada")
                try await platform.waitUntilQueued()
                #expect(try await client.logOut(devices[0])["fence"]?.stringValue == "effective")
                try await platform.startDispatcher()
                let status = try await client.completed(id)
                #expect(status.count("fenced") == 1)
                #expect(status.count("accepted") == 1)
                #expect(try await client.arrivals().map(\.token) == [devices[1].token])
            }
        }
    }

    /// Promise 6 (docs/promises.md).
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
