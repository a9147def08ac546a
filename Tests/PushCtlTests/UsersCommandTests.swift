import ArgumentParser
import StrictJSON
import Testing

@testable import PushCtl

@Suite("Data requests of a user")
struct UsersCommandTests {
    @Test(
        "App and user are both needed",
        arguments: [
            ["users", "erase", "shop"], ["users", "export", "shop"], ["users", "export", "shop", "ada", "grace"], ["users", "erase"],
        ])
    func refused(arguments: [String]) {
        #expect(throws: (any Error).self) { try PushCommand.parseAsRoot(arguments) }
    }

    @Test("Complete command lines are understood") func understood() throws {
        let erase = try #require(try PushCommand.parseAsRoot(["users", "erase", "shop", "ada", "--yes"]) as? UsersCommand.Erase)
        #expect(erase.app == "shop" && erase.user == "ada" && erase.yes)
        let export = try #require(try PushCommand.parseAsRoot(["users", "export", "shop", "ada", "-o", "f"]) as? UsersCommand.Export)
        #expect(export.output == "f")
    }

    @Test("A user's name is one part of the path, whatever it holds") func path() throws {
        #expect(try userPath("shop", "a/b?c d%é", "erase") == "/v1/apps/shop/users/a%2Fb%3Fc%20d%25%C3%A9/erase")
        #expect(throws: CommandFailure.self) { try userPath("shop", "..", "erase") }
    }

    @Test("The record says where, when and with whose key") func heading() throws {
        let answer = try JSONValue.parse(
            Array(#"{"app":"shop","user_erased":true,"erased_at":"2026-11-21T06:30:00.000Z","key_id":"0123456789abcdef"}"#.utf8))
        #expect(
            erasureHeading(answer)
                == "A user of shop was erased at 2026-11-21T06:30:00.000Z, as the key 0123456789abcdef asked.")
    }

    @Test("A name under which nothing was stored is no proof of an erasure") func nothingStored() throws {
        let answer = try JSONValue.parse(
            Array(#"{"app":"shop","user_erased":false,"erased_at":"2026-11-21T06:30:00.000Z","key_id":"0123456789abcdef"}"#.utf8))
        #expect(erasureHeading(answer).hasPrefix("Nothing was stored in shop under this name at 2026-11-21T06:30:00.000Z"))
        let empty = #"{"app":"shop","user":"x","exported_at":"T","activities":[],"installations":[],"history":[],"notifications":[]}"#
        #expect(isEmptyExport(Array(empty.utf8)))
        for (name, value) in [("history", "[{}]"), ("activities", "[{}]"), ("notifications", "[{}]"), ("installations", "[{}]")] {
            #expect(!isEmptyExport(Array(empty.replacing("\"\(name)\":[]", with: "\"\(name)\":\(value)").utf8)), "\(name)")
        }
        #expect(!isEmptyExport(Array(empty.replacing("{\"app\"", with: "{\"quiet_hours\":{},\"app\"").utf8)))
        #expect(!isEmptyExport(Array(empty.utf8.dropLast())), "the beginning of a longer one")
    }

    @Test("Erasing counts the erased rows per kind") func table() throws {
        let answer = try JSONValue.parse(
            Array(
                #"""
                {"erased":{"installations":2,"tokens":3,"history":40,"notifications":5,"deliveries":6,"idempotency_records":0,\#
                "quiet_hours":1,"activities":1,"list_entries":2}}
                """#
                .utf8))
        #expect(
            erasureTable(answer).description == """
                ERASED               NUMBER
                installations        2
                device tokens        3
                history entries      40
                notifications        5
                receipts             6
                idempotency records  0
                quiet hours          1
                Live Activities      1
                entries in lists     2
                """)
    }
}
