import Foundation
import PushAPI
import TestSupport
import Testing

@Suite("Broadcast channels")
struct ChannelTests {
    private static func channel(_ name: String, _ state: String, id: String?) -> String {
        let id = id.map { "\"\($0)\"" } ?? "null"
        return
            #"{"name":\#(name),"environment":"production","storage":"none","channel_id":\#(id),"state":"\#(state)","#
            + #""created_at":"2026-11-26T12:00:00.250Z","changed_at":"2026-11-26T12:00:00.250Z"}"#
    }

    @Test("Channels are created, taken over, listed and deleted") func calls() async throws {
        let script: [ScriptedServer.Reply] = [
            .answer(202, Self.channel(#""a/b""#, "creating", id: nil)), .answer(201, Self.channel(#""c""#, "open", id: "AA+/")),
            .answer(200, #"{"channels":[\#(Self.channel("null", "retired", id: "AA+/"))],"next_cursor":null}"#),
            .answer(204, ""), .answer(202, Self.channel("null", "deleting", id: "AA+/")),
        ]
        try await ScriptedServer.run(script) { server, url in
            let shop = PushAPI.test(url).app("shop")
            let made = try await shop.openChannel("a/b", storage: .latest)
            #expect(made.state == .creating && made.channelId == nil)
            #expect(server.requests[0].target == "/v1/apps/shop/channels/a%2Fb")
            #expect(server.requests[0].body == #"{"environment":"production","storage":"latest"}"#)
            #expect(try await shop.adoptChannel("c", environment: "sandbox", id: "AA+/").state == .open)
            #expect(server.requests[1].body == #"{"environment":"sandbox","channel_id":"AA+/"}"#)
            // A state that a later version adds.
            let page = try await shop.channels(state: .foreign, environment: "production")
            #expect(page.channels.map(\.state.rawValue) == ["retired"] && page.nextCursor == nil)
            #expect(server.requests[2].target == "/v1/apps/shop/channels?state=foreign&environment=production")
            #expect(try await shop.deleteChannel("c", force: true) == nil)
            #expect(server.requests[3].target == "/v1/apps/shop/channels/c?force=true")
            #expect(try await shop.deleteForeignChannel(id: "AA+/")?.state == .deleting)
            #expect(server.requests[4].target == "/v1/apps/shop/channels?channel_id=AA%2B%2F&environment=production")
        }
    }
}
