import ArgumentParser
import StrictJSON
import Testing

@testable import PushCtl

@Suite("What the operator types")
struct CommandTests {
    @Test(
        "Contradicting or missing arguments are refused before anything is sent",
        arguments: [
            ["send", "--app", "shop", "--title", "t"],
            ["send", "--app", "shop", "--title", "t", "--user", "a", "--installation", "b"],
            ["send", "--app", "shop", "--user", "a"],
            ["send", "--app", "shop", "--user", "a", "--title", "t", "--payload", "f"],
            ["keys", "create", "--name", "n"],
            ["status", "--app", "shop"],
            ["quarantine", "list"], ["quarantine", "list", "shop", "--limit", "0"],
            ["quarantine", "restore"], ["quarantine", "restore", "shop", "--installation", "not-a-uuid"],
        ])
    func refused(arguments: [String]) {
        #expect(throws: (any Error).self) { try PushCommand.parseAsRoot(arguments) }
    }

    @Test("A complete command line is understood") func understood() throws {
        let command = try PushCommand.parseAsRoot(["send", "--app", "shop", "--user", "ada", "--body", "hello", "--ttl-seconds", "60"])
        let send = try #require(command as? SendCommand)
        #expect(send.user == "ada" && send.body == "hello" && send.ttlSeconds == 60)
    }

    @Test("Restoring asks unless told not to, and may name installations") func restores() throws {
        let id = "9b2d1c54-0e3f-4a6b-8c7d-5e4f3a2b1c01"
        let command = try PushCommand.parseAsRoot(["quarantine", "restore", "shop", "--installation", id])
        let restore = try #require(command as? QuarantineCommand.Restore)
        #expect(restore.app == "shop" && restore.installation == [id] && !restore.yes)
    }

    @Test("What several calls restored is summed up, and what is left is the last one's word") func sumsUp() throws {
        var progress = QuarantineProgress()
        for text in [#"{"restored":9998,"superseded":2,"remaining":5}"#, #"{"restored":4,"superseded":1,"remaining":0}"#] {
            try progress.add(JSONValue.parse(Array(text.utf8)))
        }
        #expect(progress == QuarantineProgress(restored: 10_002, superseded: 3, remaining: 0))
        #expect(throws: CommandFailure.self) { try progress.add(JSONValue.parse(Array("{}".utf8))) }
    }

    @Test("A missing key file is named") func missingKeyFile() async throws {
        let options = try ConnectionOptions.parse(["--key-file", "/nonexistent/key"])
        await #expect(throws: CommandFailure("the key file /nonexistent/key cannot be read")) {
            try await options.withClient { _ in }
        }
    }
}

@Suite("What the operator reads")
struct OutputTests {
    @Test("Columns are as wide as their widest cell and rows end without blanks") func table() {
        var table = Table("A", "LONG")
        table.add("wide", "x")
        table.add("y", "")
        #expect(table.description == "A     LONG\nwide  x\ny")
    }

    @Test("A delivery that waits shows its last attempt, a finished one its outcome") func deliveries() throws {
        let status = try JSONValue.parse(
            Array(
                """
                {"deliveries":[
                {"installation":"i1","hint":"…abcdef","environment":"sandbox","state":"pending","attempts":1,
                 "last_attempt":{"class":"throttled","status":429,"reason":"TooManyRequests"}},
                {"installation":"i2","hint":"…123456","environment":"production","state":"accepted","status":200,"attempts":1}]}
                """.utf8))
        #expect(
            deliveryTable(status).description == """
                INSTALLATION  TOKEN    ENVIRONMENT  STATE                STATUS  REASON           ATTEMPTS
                i1            …abcdef  sandbox      waiting (throttled)  429     TooManyRequests  1
                i2            …123456  production   accepted             200     -                1
                """)
    }
}
