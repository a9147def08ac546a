import Foundation
import FoundationNetworking
import PushAPI
import PushModel
import StrictJSON
import Testing

@Suite("No log holds a secret", .timeLimit(.minutes(5)))
struct SecretsInLogsTests {
    /// The secrets of this test, in the places of client data.
    private static let text = "a-very-private-text"
    private static let user = "somebody-by-name"

    @Test("No secret is logged at the most verbose level, for any request and any failure") func atEveryLevel() async throws {
        try await withPlatform { platform in
            let level = ["LOG_LEVEL": "trace"]
            try await platform.startSimulator(level)
            let tokenService = try await platform.startTokenService(level)
            try await platform.startDispatcher("dispatcher", level)
            try await Client.with(platform, tokenService) { client in
                let devices = try await client.registerDevices(2, user: Self.user)
                try await client.script(devices[0]) { answers in
                    answers.object { answer in
                        answer.field("status", 410)
                        answer.field("reason", "Unregistered")
                    }
                }
                _ = try await client.completed(try await client.send(Self.text, to: Self.user))
                _ = try await client.logOut(devices[1])
                await Self.refused(client, token: devices[0].token)
            }
            try await Self.malformed(tokenService)
            let check = try LogCheck.run(platform.folder, markers: [Self.text, Self.user])
            #expect(check.status == 0, "\(check.words)")
            #expect(platform.hasLogged("trace") || platform.hasLogged("debug"), "the level was not talkative")
        }
    }

    /// Requests with answers 400, 401, 403 and 404. The log must not repeat the text of the answers.
    private static func refused(_ client: Client, token: String) async {
        let path = "/v1/apps/\(Client.app)"
        for key in [APIKeyText.generate().text, "psh_nonsense", client.service.key ?? ""] {
            let service = client.service.other(key: key)
            for place in ["\(path)/notifications", "\(path)/tokens/search", "\(path)/tokens/\(token)", "/v1/admin/apps"] {
                do {
                    _ = try await service.post(place) { body in
                        body.field("user", user)
                        body.field("token", token + "0")
                        body.field(text, text)
                    }
                } catch {
                    // The test wants a refusal.
                }
            }
        }
    }

    /// Requests that a parser refuses.
    private static func malformed(_ service: RunningService) async throws {
        var request = URLRequest(url: try #require(URL(string: "\(service.url)/v1/apps/shop/import?user=\(user)")))
        request.httpMethod = "POST"
        request.setValue("Bearer \(text)", forHTTPHeaderField: "Authorization")
        request.httpBody = Data("{\"user\":\"\(user)".utf8)
        _ = try await URLSession.shared.data(for: request)
    }

    static let leaks = [
        "token 00fa1b2c00fa1b2c00fa1b2c00fa1b2c00fa1b2c00fa1b2c00fa1b2c00fa1b2c", "Key (token)=(\\x\(String(repeating: "Af", count: 32)))",
        "authorization: bearer eyJhbGciOiJFUzI1NiIsImtpZCI6IkEifQ.eyJpc3MiOiJURUFNIn0.c2ln", "Authorization: Bearer 0123456789abcdefghij",
        APIKeyText.generate().text, "whsec_c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0", "-----BEGIN PRIVATE KEY-----", "MIGHAgEAMBMGByqGSM49AgEG",
        #"{"msg":"{\"aps\":{\"alert\":\"hello\"}}"}"#, #"payload {"aps" : {}}"#, "amqps://push:sesame@rabbit:5671/", "the words of grace",
    ]

    @Test("The check finds each kind of leak, reports its place, and does not repeat the secret", arguments: leaks)
    func finds(leak: String) throws {
        try Self.withFolder { folder in
            try Data("an ordinary line\n{\"level\":\"info\",\"n\":17}\nbefore \(leak) after\n".utf8).write(
                to: URL(fileURLWithPath: "\(folder)/dispatcher-1.log"))
            let check = try LogCheck.run(folder, markers: ["words of grace"])
            #expect(check.status == 1 && check.words.contains("dispatcher-1.log:3: "), "\(check.words)")
            #expect(!check.words.contains(leak))
        }
    }

    @Test("The check passes texts that are no secret, and fails without a log to read") func passes() throws {
        try Self.withFolder { folder in
            #expect(try LogCheck.run(folder).status == 2)
            let log = URL(fileURLWithPath: "\(folder)/a.log")
            try Data().write(to: log)
            #expect(try LogCheck.run(folder).status == 2)
            let harmless = """
                {"commit":"0068c5f1e2d3c4b5a697887766554433221100ff","trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","token":"…00fa12"}
                {"id":"9f4c1e1a-6d0b-4c55-8a63-0e4b5c1d2f30","key":"39f183cb8f6a5e92","url":"amqp://127.0.0.1:5672/","why":"send a live \
                key as Authorization: Bearer psh_…"}

                """
            try Data(harmless.utf8).write(to: log)
            let check = try LogCheck.run(folder)
            #expect(check.status == 0 && check.words.contains("1 logs, 2 lines"), "\(check.words)")
        }
    }

    private static func withFolder(_ body: (String) throws -> Void) throws {
        let folder = NSTemporaryDirectory() + "/push-logs-\(PushID.random())"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        defer {
            do { try FileManager.default.removeItem(atPath: folder) } catch { Issue.record("\(folder) stays behind: \(error)") }
        }
        try body(folder)
    }
}
