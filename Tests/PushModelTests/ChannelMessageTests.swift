import PushModel
import Testing

@Suite("A command for a broadcast channel, and its answer")
struct ChannelMessageTests {
    private static let command = Sample.notification
    private static let text = "dHN0LXNyY2gtY2hubA=="

    private static func command(_ request: ChannelCommand.Request) throws -> ChannelCommand {
        ChannelCommand(
            id: command, app: try Sample.app(), environment: .production, bundleID: "com.example.shop", request: request,
            expiresAt: 1_782_214_231_125)
    }

    private static func answer(_ operation: ChannelOperation, _ result: ChannelAnswer.Result) throws -> ChannelAnswer {
        ChannelAnswer(
            id: PushID(high: 0x0198_0c5e_9a11_7b02, low: 0x8c3d_4e5f_6071_8293), source: "/push/dispatcher/dispatcher-0",
            time: 1_782_214_201_125, command: command, app: try Sample.app(), environment: .production, operation: operation, result: result
        )
    }

    @Test("The documented command reads as its value and is what is written") func matchesTheCommandContract() throws {
        let file = try Fixture.bytes("channel-command.v1.json")
        let command = try Self.command(.create(.latest))
        #expect(try ChannelCommand(decoding: file) == command)
        #expect(try String(decoding: command.encoded(), as: UTF8.self) == Fixture.compact(file))
    }

    @Test("The documented answers read as their values and are what is written") func matchesTheAnswerContract() throws {
        var created = try Self.answer(.create, .done)
        (created.status, created.channelID, created.storage) = (201, Self.text, .latest)
        var listed = try Self.answer(.list, .done)
        (listed.status, listed.channels) = (200, [Self.text, "b3RoZXItY2hhbm5lbA=="])
        for (name, answer) in [("channel-answer.v1.json", created), ("channel-answer.list.v1.json", listed)] {
            let file = try Fixture.bytes(name)
            #expect(try ChannelAnswer(decoding: file) == answer)
            #expect(try String(decoding: answer.encoded(), as: UTF8.self) == Fixture.compact(file))
        }
    }

    @Test("Every request and every result survives") func keepsWords() throws {
        let channel = try #require(ChannelID(Self.text))
        for request in [ChannelCommand.Request.create(.none), .create(.latest), .read(channel), .delete(channel), .list] {
            let command = try Self.command(request)
            #expect(try ChannelCommand(decoding: command.encoded()) == command)
        }
        for operation in ChannelOperation.allCases {
            for result in ChannelAnswer.Result.allCases {
                var answer = try Self.answer(operation, result)
                #expect(try ChannelAnswer(decoding: answer.encoded()) == answer)
                (answer.status, answer.reason, answer.channels) = (400, "ChannelNotRegistered", [])
                #expect(try ChannelAnswer(decoding: answer.encoded()) == answer)
            }
        }
    }

    @Test("An answer with Apple's greatest number of channels is read") func readsLongLists() throws {
        var answer = try Self.answer(.list, .done)
        answer.channels = Array(repeating: String(repeating: "A", count: 344), count: 10_000)
        #expect(try ChannelAnswer(decoding: answer.encoded()) == answer)
    }

    @Test(
        "The decoder refuses an invalid command and names the field",
        arguments: [
            (#""v":1"#, #""v":2"#, MessageError.Code.unsupportedVersion(2)), (#""v":1"#, #""v":"1""#, .invalidField("v")),
            ("01980c5e-7d20", "01980c5e-7d2", .invalidField("id")), (#""shop""#, #""Shop""#, .invalidField("app")),
            ("production", "staging", .invalidField("environment")), ("com.example.shop", "com.example/shop", .invalidField("bundle_id")),
            ("com.example.shop", "", .invalidField("bundle_id")), ("create", "rename", .invalidField("operation")),
            ("create", "read", .invalidField("channel_id")), ("latest", "all", .invalidField("storage")),
            ("2026-06-23T", "2026-06-23 at ", .invalidField("expires_at")), ("{", "", .malformed),
        ])
    func refusesCommands(_ part: String, _ other: String, _ code: MessageError.Code) throws {
        let text = String(decoding: try Self.command(.create(.latest)).encoded(), as: UTF8.self).replacing(part, with: other)
        let error = #expect(throws: MessageError.self) { try ChannelCommand(decoding: Array(text.utf8)) }
        #expect(error?.code == code)
    }

    @Test(
        "The decoder refuses an invalid answer and names the field",
        arguments: [
            (#""v":1"#, #""v":2"#, MessageError.Code.unsupportedVersion(2)), ("channels.v1", "credentials.v1", .invalidField("type")),
            (#""done""#, #""maybe""#, .invalidField("result")), (#""list""#, #""lists""#, .invalidField("operation")),
            (#"["x"]"#, #"["x",1]"#, .invalidField("channels")), (#""data""#, #""date""#, .invalidField("v")),
        ])
    func refusesAnswers(_ part: String, _ other: String, _ code: MessageError.Code) throws {
        var answer = try Self.answer(.list, .done)
        answer.channels = ["x"]
        let text = String(decoding: answer.encoded(), as: UTF8.self).replacing(part, with: other)
        let error = #expect(throws: MessageError.self) { try ChannelAnswer(decoding: Array(text.utf8)) }
        #expect(error?.code == code)
    }

    @Test("An id of a channel is the same text after its way through a job") func keepsChannelIDs() throws {
        let channel = try #require(ChannelID(Self.text))
        #expect(channel.asToken.bytes == Array("tst-srch-chnl".utf8))
        #expect(ChannelID(channel.asToken) == channel)
        // Another text for the same bytes would come back as one that Apple did not write.
        for text in ["", "dHN0LXNyY2gtY2hubA", "dHN0LXNyY2gtY2hubB==", "no base64", "-_-_", String(repeating: "AAAA", count: 86)] {
            #expect(ChannelID(text) == nil, "\(text)")
        }
    }
}
