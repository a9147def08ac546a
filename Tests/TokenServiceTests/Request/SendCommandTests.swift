import ArgumentParser
import FoundationEssentials
import Postgres
import PushAPI
import PushModel
import StrictJSON
import Testing
import TokenServiceSending

@testable import PushCtl

@Suite("pushctl send, send-batch and validate", .serialized, .timeLimit(.minutes(5)))
struct SendCommandTests {
    /// Runs a command against the service as that client.
    private static func pushctl(_ client: APITestClient, _ arguments: String...) async throws { try await pushctl(client, arguments) }

    private static func pushctl(_ client: APITestClient, _ arguments: [String]) async throws {
        let key = try TemporaryFile(client.key ?? "")
        defer { key.remove() }
        let connection = ["--url", "http://127.0.0.1:\(client.port)/", "--key-file", key.path]
        guard var command = try PushCommand.parseAsRoot(arguments + connection) as? any AsyncParsableCommand else {
            throw CommandFailure("not a command")
        }
        try await command.run()
    }

    @Test("pushctl validates a request from a file and then sends it") func requestFile() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let request = try TemporaryFile(
                #"{"to":{"user":"ada"},"content":{"alert":"hello"},"locales":{"de":{"content":{"alert":"hallo"}}}}"#)
            defer { request.remove() }
            let output = try TemporaryFile("what was there before, which is longer than what is written over it, so that a rest would show")
            defer { output.remove() }
            try await Self.pushctl(shop, "validate", "shop", request.path, "--apns-file", output.path, "--locale", "de-CH")
            #expect(
                try String(contentsOfFile: output.path, encoding: .utf8)
                    == #"{"Simulator Target Bundle":"com.example.shop","aps":{"alert":"hallo"}}"# + "\n")
            #expect(try await running.count("SELECT count(*) FROM notifications") == 0)
            try await Self.pushctl(shop, "send", "shop", "--file", request.path, "--idempotency-key", "k")
            try await Self.pushctl(shop, "send", "shop", "--file", request.path, "--idempotency-key", "k")
            #expect(try await running.count("SELECT count(*) FROM notifications") == 1)
            // No device to send to: it has ended as it is accepted, so waiting ends.
            let unaddressed = try TemporaryFile(#"{"to":{"user":"grace"},"content":{"alert":"hello"}}"#)
            defer { unaddressed.remove() }
            let code = await #expect(throws: ExitCode.self) {
                try await Self.pushctl(shop, "send", "shop", "--file", unaddressed.path, "--wait", "-o", "json")
            }
            #expect(code == ExitCode(3))
            let wrong = try TemporaryFile(#"{"to":{"user":"ada"},"content":{"badge":-1}}"#)
            defer { wrong.remove() }
            for command in ["send", "validate"] {
                let failure = await #expect(throws: CommandFailure.self) {
                    let words = command == "send" ? ["send", "shop", "--file"] : ["validate", "shop", "-o", "json"]
                    try await Self.pushctl(shop, words + [wrong.path])
                }
                #expect(failure?.description.contains("/content/badge: expected a whole number from 0") == true)
            }
        }
    }

    @Test("pushctl sends a file of many notifications group by group, and a bad line fails alone") func batchFile() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let notifications: PostgresQuery = "SELECT count(*) FROM notifications"
            var lines = (1...1050).map {
                #"{"notification":{"to":{"user":"ada"},"content":{"alert":"\#($0)"}},"idempotency_key":"k\#($0)"}"#
            }
            let good = try TemporaryFile(lines.joined(separator: "\n"))
            defer { good.remove() }
            try await Self.pushctl(shop, "send-batch", "shop", good.path)
            #expect(try await running.count(notifications) == 1050)
            // Their keys make a second time harmless.
            try await Self.pushctl(shop, "send-batch", "shop", good.path, "-o", "json", "--from-line", "1000")
            #expect(try await running.count(notifications) == 1050)
            lines = ["{", #"{"notification":{}}"#, "", #"{"notification":{"to":{"user":"ada"},"content":{"alert":"more"}}}"#]
            let mixed = try TemporaryFile(lines.joined(separator: "\n"))
            defer { mixed.remove() }
            let code = await #expect(throws: ExitCode.self) { try await Self.pushctl(shop, "send-batch", "shop", mixed.path) }
            #expect(code == ExitCode(2))
            #expect(try await running.count(notifications) == 1051)
            let reader = try await running.client.makeKey(app: "shop", scopes: ["read"])
            let failure = await #expect(throws: CommandFailure.self) {
                try await Self.pushctl(reader, "send-batch", "shop", mixed.path)
            }
            #expect(failure?.description.contains("403 forbidden") == true)
            #expect(failure?.description.contains("go on with --from-line 1") == true)
        }
    }

    @Test("pushctl uploads a file of users or installations if it is long") func targetFile() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            let short = try TemporaryFile("ada\r\n\r\ngrace \"hopper\"\n")
            defer { short.remove() }
            try await Self.pushctl(shop, "send", "shop", "--users-file", short.path, "--title", "Hello")
            let named: [String] = try await running.pool.session { session in
                try session.execute("SELECT owner FROM targets ORDER BY place").column("owner")
            }
            #expect(named == ["ada", #"grace "hopper""#])
            let long = try TemporaryFile((1...1001).map { "\(installation($0))" }.joined(separator: "\n"))
            defer { long.remove() }
            for _ in 1...2 {
                try await Self.pushctl(
                    shop, "send", "shop", "--installations-file", long.path, "--body", "Hello", "--idempotency-key", "k")
            }
            let lanes: [String] = try await running.pool.session { session in
                try session.execute("SELECT lane FROM notifications ORDER BY id").column("lane")
            }
            #expect(lanes == ["soon", "bulk"])
            let broken = try TemporaryFile("")
            defer { broken.remove() }
            let failure = await #expect(throws: CommandFailure.self) {
                try await Self.pushctl(shop, "send", "shop", "--users-file", broken.path, "--title", "Hello")
            }
            #expect(failure?.description.contains("/to/users: at least one") == true)
        }
    }

    @Test("A payload that goes to no app leaves an earlier file as it is") func earlierFile() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let call = try TemporaryFile(#"{"to":{"user":"ada"},"push_type":"voip","payload":{"call":1}}"#)
            defer { call.remove() }
            let output = try TemporaryFile("a good file")
            defer { output.remove() }
            await #expect(throws: CommandFailure.self) {
                try await Self.pushctl(shop, "validate", "shop", call.path, "--apns-file", output.path)
            }
            #expect(try String(contentsOfFile: output.path, encoding: .utf8) == "a good file")
        }
    }

    @Test("pushctl reads back what the service takes, however deep it nests") func deepPayload() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            // With the request and the payload around it, as deep as a body may be. The answer has the payload deeper.
            let deep = String(repeating: "[", count: 30) + String(repeating: "]", count: 30)
            let request = try TemporaryFile(#"{"to":{"user":"ada"},"payload":{"aps":{"alert":"a"},"deep":\#(deep)}}"#)
            defer { request.remove() }
            let output = try TemporaryFile("")
            defer { output.remove() }
            try await Self.pushctl(shop, "validate", "shop", request.path, "--apns-file", output.path)
            #expect(
                try String(contentsOfFile: output.path, encoding: .utf8)
                    == #"{"Simulator Target Bundle":"com.example.shop","aps":{"alert":"a"},"deep":\#(deep)}"# + "\n")
        }
    }

    @Test("Waiting ends with the last outcome") func waitingEnds() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let id = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id"))
            let notification = try #require(PushID(id))
            try await PushAPI.with(baseURL: "http://127.0.0.1:\(shop.port)", key: shop.key) { client in
                try await withThrowingTaskGroup(of: String?.self) { group in
                    group.addTask { try await client.app("shop").end(of: id).state.rawValue }
                    #expect(try await client.get("/v1/apps/shop/notifications/\(id)")["state"]?.stringValue != "completed")
                    try await running.execute(
                        "UPDATE notifications SET state = 'completed', pending = 0, completed_at = now() WHERE id = \(notification)"
                    )
                    #expect(try await group.next() == "completed")
                }
            }
        }
    }
}
