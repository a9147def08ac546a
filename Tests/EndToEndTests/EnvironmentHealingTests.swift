import PushAPI
import StrictJSON
import Testing

@Suite("A token that was registered for the wrong environment", .timeLimit(.minutes(5)))
struct EnvironmentHealingTests {
    /// A development build that registers as a production one.
    @Test("The dispatcher tries the token once in the other environment, the push arrives, and the registry remembers the environment")
    func healing() async throws {
        try await withPlatform { platform in
            try await platform.startSimulator()
            let tokenService = try await platform.startTokenService()
            try await platform.startDispatcher()
            try await Client.with(platform, tokenService) { client in
                let device = Client.Device()
                try await client.simulator.put("/v1/devices/\(device.token)") { $0.field("environment", "sandbox") }
                try await client.register(device, user: "ada")
                #expect(try await client.environments(of: device) == ["production"])

                let first = try await client.completed(client.send("first", to: "ada"))
                #expect(first.count("accepted") == 1)
                #expect(try await client.arrivals().map(\.status) == [400, 200])
                #expect(try await client.environments(of: device) == ["sandbox"])

                // Only the sandbox names each push for Apple's console.
                let receipt = try await client.deliveries(of: first["id"]?.stringValue ?? "").first
                #expect(receipt?["environment"]?.stringValue == "sandbox")
                #expect(receipt?["apns_unique_id"]?.stringValue?.count == 36)

                // The dispatcher does not try a known environment again.
                _ = try await client.completed(client.send("second", to: "ada"))
                #expect(try await client.arrivals().map(\.status) == [400, 200, 200])
                // The device repeats the wrong environment, and the registry keeps the right one.
                try await client.register(device, user: "ada")
                #expect(try await client.environments(of: device) == ["sandbox"])
            }
        }
    }
}

extension Client {
    fileprivate func deliveries(of notification: String) async throws -> [JSONValue] {
        try await service.get("/v1/apps/\(Self.app)/notifications/\(notification)/deliveries")["deliveries"]?.arrayValue ?? []
    }

    /// The environment that the registry would send to now.
    fileprivate func environments(of device: Device) async throws -> [String?] {
        let record = try await service.get("/v1/apps/\(Self.app)/installations/\(device.installation)")
        return (record["tokens"]?.arrayValue ?? []).filter { $0["state"]?.stringValue == "active" }.map { $0["environment"]?.stringValue }
    }
}
