import Foundation
import PushAPI
import StrictJSON
import TestSupport
import Testing

/// Token service, dispatcher and the simulated APNs: what exists at Apple is what the registry says.
@Suite("Broadcast channels exist at Apple as the registry says", .timeLimit(.minutes(10)))
struct ChannelTests {
    private static let count = 5
    /// An answer is lost after a second.
    private static let settings = ["CHANNELS_COMMAND_TIMEOUT_MS": "1000"]

    @Test("kill -9 of dispatchers and token services in the midst of creating and deleting channels leaks none and loses none")
    func throughKills() async throws {
        try await withPlatform { platform in
            try await platform.startSimulator()
            let port = try FreePorts.choose(1)[0]
            var service = try await platform.startTokenService(at: port, Self.settings)
            var dispatcher = try await platform.startDispatcher("first")
            var random = SeededGenerator(seed: 6)
            try await Client.with(platform, service) { client in
                let shop = client.service.app(Client.app)
                for isCreating in [true, false] {
                    for number in 1...Self.count {
                        async let done = Self.ask(shop, number, isCreating)
                        try await Task.sleep(for: .milliseconds(Int.random(in: 0...150, using: &random)))
                        await dispatcher.process.killAndWait()
                        if number.isMultiple(of: 3) {
                            await service.process.killAndWait()
                            service = try await platform.startTokenService(at: port, Self.settings)
                        }
                        dispatcher = try await platform.startDispatcher("after-\(number)")
                        try await done
                    }
                    let wanted = isCreating ? Self.count : 0
                    let registered = try await eventually("the registry has what was asked") {
                        let channels = try await shop.channels().channels
                        return channels.count == wanted && channels.allSatisfy { $0.state == .open } ? channels : nil
                    }
                    let atApple = try await client.simulator.get("/v1/channels")["channels"]?.arrayValue ?? []
                    #expect(
                        Set(atApple.compactMap { $0["channel_id"]?.stringValue }) == Set(registered.compactMap(\.channelId)),
                        "\(atApple)")
                    #expect(atApple.count == wanted)
                }
            }
        }
    }

    private static func ask(_ shop: PushAPI.App, _ number: Int, _ isCreating: Bool) async throws {
        if isCreating {
            _ = try await shop.openChannel("match-\(number)", storage: number.isMultiple(of: 2) ? .latest : .none)
        } else {
            _ = try await shop.deleteChannel("match-\(number)")
        }
    }
}
