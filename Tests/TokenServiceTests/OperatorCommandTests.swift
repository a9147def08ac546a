import ArgumentParser
import FoundationEssentials
import Postgres
import PushModel
import StrictJSON
import Testing
import TokenService
import TokenServiceApps
import TokenServiceKit

@testable import PushCtl

@Suite("pushctl quarantine, users, installations and notifications, against a service", .serialized, .timeLimit(.minutes(5)))
struct OperatorCommandTests {
    /// The options that name a service and a key.
    private static func connection(_ running: RunningService, _ client: APITestClient, _ body: ([String]) async throws -> Void) async throws
    {
        let key = try TemporaryFile(try #require(client.key))
        defer { key.remove() }
        try await body(["--url", "http://127.0.0.1:\(running.client.port)", "--key-file", key.path])
    }

    private static func run<Command: AsyncParsableCommand>(_: Command.Type, _ arguments: [String]) async throws {
        var command = try Command.parse(arguments)
        try await command.run()
    }

    @Test("pushctl lists the quarantine and restores one installation or all") func quarantineCommands() async throws {
        try await RunningService.run { running in
            let brake = try await Brake.engaged(running)
            let admin = try await running.client.makeKey(app: "shop", scopes: ["admin"])
            try await Self.connection(running, admin) { connection in
                try await Self.run(QuarantineCommand.List.self, ["shop", "--limit", "5"] + connection)
                let one = ["--installation", installation(2).description]
                try await Self.run(QuarantineCommand.Restore.self, ["shop", "--yes"] + one + connection)
                #expect(try await brake.states() == ["active": 6, "quarantined": 19, "retired": 0])
                try await Self.run(QuarantineCommand.Restore.self, ["shop", "--yes"] + connection)
                #expect(try await brake.states() == ["active": 25, "quarantined": 0, "retired": 0])
                // Nothing to ask about and nothing to do.
                try await Self.run(QuarantineCommand.Restore.self, ["shop"] + connection)
            }
            try await Self.connection(running, running.client.makeKey(app: "shop", scopes: ["send"])) { connection in
                await #expect(throws: CommandFailure.self) {
                    try await Self.run(QuarantineCommand.Restore.self, ["shop", "--yes"] + connection)
                }
            }
        }
    }

    @Test("pushctl states and shows every property of an app") func appProperties() async throws {
        #expect(AppOptions.all.map(\.field) == AppProperties.all.map { "\($0.column)" })
        try await RunningService.run { running in
            try await Self.connection(running, running.client) { connection in
                let words = EventLog.allCases.map(\.rawValue)
                let stated = ["--event-stream", words.joined(separator: ","), "--activity-window-seconds", "30"]
                try await Self.run(AppsCommand.Create.self, ["shop", "--bundle-id", "com.example.shop"] + stated + connection)
                let app = try await running.client.get("/v1/admin/apps/shop").json
                #expect(app["event_stream"]?.arrayValue?.compactMap(\.stringValue) == words && app.number("activity_window_seconds") == 30)
                try await Self.run(AppsCommand.Update.self, ["shop", "--event-stream", "none"] + connection)
                #expect(try await running.client.get("/v1/admin/apps/shop").json["event_stream"]?.arrayValue?.isEmpty == true)
            }
        }
    }

    @Test("pushctl shows the audit trail to an administrator of every app") func auditCommand() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            try await Self.connection(running, running.client) { connection in
                let since = ["--since", "2026-01-01T00:00:00+00:00", "--limit", "5"]
                for more in [[], ["-o", "json"], ["--app", "shop", "--action", "key.created"], since] {
                    try await Self.run(AuditCommand.self, more + connection)
                }
                await #expect(throws: CommandFailure.self) { try await Self.run(AuditCommand.self, ["--action", "key.made"] + connection) }
            }
            try await Self.connection(running, running.client.makeKey(app: "shop", scopes: ["admin"])) { connection in
                await #expect(throws: CommandFailure.self) { try await Self.run(AuditCommand.self, connection) }
            }
            let entries = try #require(try await running.client.get("/v1/admin/audit?app=shop").json["entries"]?.arrayValue)
            let rows = auditTable(entries).description.split(separator: "\n")
            #expect(rows.count == 4 && rows[1].contains("key.created") && rows[3].contains("app.created") && rows[3].contains("bootstrap"))
        }
    }

    @Test("pushctl creates, lists, adopts and deletes channels") func channelCommands() async throws {
        try await RunningService.run { running in
            let apple = AppleChannels()
            let shop = try await running.client.makeApp()
            try await apple.serve(running) {
                try await Self.connection(running, shop) { connection in
                    try await Self.run(ChannelsCommand.Create.self, ["shop", "game-1", "--storage", "none"] + connection)
                    try await Self.run(ChannelsCommand.Get.self, ["shop", "game-1"] + connection)
                    let (first, second) = (apple.make(.latest), apple.make())
                    try await Self.run(ChannelsCommand.Adopt.self, ["shop", "game-2", "--channel-id", first] + connection)
                    try await Self.run(ChannelsCommand.Adopt.self, ["shop", "game-3", "--channel-id", second] + connection)
                    try await Self.run(ChannelsCommand.List.self, ["shop", "--state", "open", "-o", "json"] + connection)
                    try await Self.run(ChannelsCommand.Delete.self, ["shop", "game-1"] + connection)
                    try await Self.run(ChannelsCommand.Delete.self, ["shop", "game-3", "--force"] + connection)
                    #expect(apple.channels() == [first: .latest])
                    await #expect(throws: CommandFailure.self) {
                        try await Self.run(ChannelsCommand.Delete.self, ["shop", "--channel-id", first] + connection)
                    }
                }
            }
        }
    }

    @Test("pushctl finds, shows and explains a notification") func notificationCommands() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let user = "ada/1 ü&x"
            try await shop.register(installation(1), user: user, token: token(1))
            let sent = try await shop.send(#"{"user":"\#(user)"}"#)
            let id = try #require(sent.json.text("id"))
            try await Self.connection(running, shop) { connection in
                for json in [[], ["-o", "json"]] {
                    let found = ["--user", user, "--since", "2026-01-01T00:00:00+00:00", "--limit", "5"]
                    try await Self.run(NotificationsCommand.List.self, ["shop"] + found + json + connection)
                    try await Self.run(NotificationsCommand.Show.self, ["shop", id] + json + connection)
                    let filter = ["--state", "pending", "--installation", installation(1).description]
                    try await Self.run(NotificationsCommand.Deliveries.self, ["shop", id] + filter + json + connection)
                    try await Self.run(NotificationsCommand.Why.self, ["shop", id, "--user", user] + json + connection)
                }
                await #expect(throws: CommandFailure.self) {
                    try await Self.run(NotificationsCommand.List.self, ["shop", "--state", "sent"] + connection)
                }
                await #expect(throws: CommandFailure.self) {
                    try await Self.run(NotificationsCommand.Why.self, ["shop", PushID.random().description, "--user", user] + connection)
                }
            }
        }
    }

    @Test("pushctl exports a user into a private file and erases the user") func userCommands() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let user = "ada/1 ü"
            _ = try await shop.put(
                "/v1/apps/shop/installations/\(installation(1))", #"{"user":"\#(user)","tokens":[{"token":"\#(token(1))"}]}"#)
            let path = FileManager.default.temporaryDirectory.appending(path: "push-export-\(PushID.random())").path
            try await Self.connection(running, running.client) { connection in
                try await Self.run(UsersCommand.Export.self, ["shop", user, "-o", path] + connection)
                let exported = try JSONValue.parse(Array(String(contentsOfFile: path, encoding: .utf8).utf8))
                #expect(exported.text("user") == user)
                #expect(exported["installations"]?.arrayValue?.count == 1)
                #expect(try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int == 0o600)
                // Never over another file.
                await #expect(throws: CommandFailure.self) {
                    try await Self.run(UsersCommand.Export.self, ["shop", user, "-o", path] + connection)
                }
                try await Self.run(UsersCommand.Erase.self, ["shop", user, "--yes"] + connection)
                try await running.expectNothing(of: user, shells: 1)
                // Nothing is left, and nothing is told from a name that never was.
                for name in [user, "nobody-ever"] {
                    await #expect(throws: ExitCode(3)) {
                        try await Self.run(UsersCommand.Erase.self, ["shop", name, "--yes"] + connection)
                    }
                    await #expect(throws: ExitCode(3)) { try await Self.run(UsersCommand.Export.self, ["shop", name] + connection) }
                }
            }
            try FileManager.default.removeItem(atPath: path)
            try await Self.connection(running, shop) { connection in
                await #expect(throws: CommandFailure.self) {
                    try await Self.run(UsersCommand.Export.self, ["shop", user, "-o", path] + connection)
                }
                // The command leaves no half of a user's data behind.
                #expect(!FileManager.default.fileExists(atPath: path))
            }
        }
    }

    @Test("pushctl lists, shows, explains and finds installations") func installationCommands() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let file = try TemporaryFile(token(1) + "\n")
            defer { file.remove() }
            try await Self.connection(running, shop) { connection in
                let id = installation(1).description
                for more in [[], ["-o", "json"], ["-o", "json", "--full-tokens", "--user", "ada"], ["--state", "signed_in"]] {
                    try await Self.run(InstallationsCommand.List.self, ["shop"] + more + connection)
                }
                for more in [[], ["-o", "json"], ["--full-tokens"]] {
                    try await Self.run(InstallationsCommand.Show.self, ["shop", id] + more + connection)
                }
                for more in [[], ["-o", "json", "--oldest-first"]] {
                    try await Self.run(InstallationsCommand.History.self, ["shop", id] + more + connection)
                }
                try await Self.run(InstallationsCommand.Search.self, ["shop", "--token-file", file.path] + connection)
                await #expect(throws: CommandFailure.self) {
                    try await Self.run(InstallationsCommand.Show.self, ["shop", installation(9).description] + connection)
                }
                await #expect(throws: CommandFailure.self) {
                    try await Self.run(InstallationsCommand.List.self, ["shop", "--state", "asleep"] + connection)
                }
            }
            let sender = try await running.client.makeKey(app: "shop", scopes: ["send"])
            try await Self.connection(running, sender) { connection in
                await #expect(throws: CommandFailure.self) { try await Self.run(InstallationsCommand.List.self, ["shop"] + connection) }
            }
        }
    }
}
