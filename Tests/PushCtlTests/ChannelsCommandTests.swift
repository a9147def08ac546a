import ArgumentParser
import StrictJSON
import Testing

@testable import PushCtl

@Suite("The commands for broadcast channels")
struct ChannelsCommandTests {
    @Test(
        "Incomplete and contradictory command lines are refused",
        arguments: [
            ["channels", "create", "shop", "game-1"], ["channels", "create", "shop", "game-1", "--storage", "all"],
            ["channels", "create", "shop", "game-1", "--storage", "none", "--environment", "test"],
            ["channels", "adopt", "shop", "game-1"],
            ["channels", "adopt", "shop", "game-1", "--channel-id", "?"], ["channels", "delete", "shop"],
            ["channels", "delete", "shop", "game-1", "--channel-id", "AAAA"],
            ["channels", "delete", "shop", "--channel-id", "AAAA", "--force"],
            ["channels", "list", "shop", "--limit", "0"], ["channels", "get", "shop"],
        ])
    func refused(arguments: [String]) {
        #expect(throws: (any Error).self) { try PushCommand.parseAsRoot(arguments) }
    }

    @Test("The table shows each channel, also one without a name") func table() throws {
        let answer = try JSONValue.parse(
            Array(
                #"""
                [{"name":"game-1","environment":"production","storage":"none","channel_id":"AAAA","state":"open",\#
                "changed_at":"2026-11-21T06:30:00.000Z"},
                 {"name":null,"environment":"sandbox","storage":null,"channel_id":"BBBB","state":"foreign",\#
                "changed_at":"2026-11-21T06:30:00.000Z"},
                 {"name":"game-2","environment":"sandbox","storage":"none","channel_id":null,"state":"failed","reason":"FeatureNotEnabled",
                  "changed_at":"2026-11-21T06:30:00.000Z"}]
                """#.utf8))
        #expect(
            channelTable(answer.arrayValue ?? []).description == """
                CHANNEL  ENVIRONMENT  STORAGE  STATE    APPLE'S ID  CHANGED                   REASON
                game-1   production   none     open     AAAA        2026-11-21T06:30:00.000Z
                (none)   sandbox      ?        foreign  BBBB        2026-11-21T06:30:00.000Z
                game-2   sandbox      none     failed   -           2026-11-21T06:30:00.000Z  FeatureNotEnabled
                """)
    }
}
