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
            ["installations", "list"],
            ["installations", "list", "--app", "shop", "--limit", "0"],
            ["installations", "list", "--app", "shop", "--full-tokens"],
            ["installations", "show", "--app", "shop"],
            ["installations", "search", "--app", "shop", "00c0ffee"],
        ])
    func refused(arguments: [String]) {
        #expect(throws: (any Error).self) { try PushCommand.parseAsRoot(arguments) }
    }

    @Test("A complete command line is understood") func understood() throws {
        let command = try PushCommand.parseAsRoot(["send", "--app", "shop", "--user", "ada", "--body", "hello", "--ttl-seconds", "60"])
        let send = try #require(command as? SendCommand)
        #expect(send.user == "ada" && send.body == "hello" && send.ttlSeconds == 60)
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
