import Configuration
import FoundationEssentials
import Logging
import Observability
import Synchronization
import Testing

@Suite("How settings are read")
struct SettingsTests {
    private enum Colour: String, CaseIterable { case red, green }

    @Test("Settings come from the environment")
    func readsEnvironment() throws {
        let config = environment([
            "HTTP_PORT": "8081", "NAME": "x", "WAIT": "5", "COLOUR": "green", "ON": "true",
            "POSTGRES_URL": "postgresql://u:p@db.example:5433/push", "EMPTY": "",
        ])
        #expect(try config.integer("http.port", default: 1, in: 1...65_535) == 8081)
        #expect(try config.text("name", "a name") == "x")
        #expect(try config.seconds("wait", default: 1, in: 1...10) == .seconds(5))
        #expect(try config.choice("colour", default: Colour.red) == .green)
        #expect(try config.flag("on", default: false))
        let url = try config.url("postgres.url", schemes: ["postgresql", "postgres"])
        #expect((url.scheme, url.host, url.port) == ("postgresql", "db.example", 5433))
        #expect(config.optionalText("empty") == nil, "an empty variable is one that is not set")
    }

    @Test("A missing setting has its default")
    func fallsBack() throws {
        let config = environment([:])
        #expect(try config.integer("http.port", default: 8080, in: 1...65_535) == 8080)
        #expect(config.text("name", default: "y") == "y")
        #expect(try config.optionalInteger("n", in: 1...2) == nil)
        #expect(try config.choice("colour", default: Colour.red) == .red)
        #expect(try config.flag("on", default: true))
        #expect(
            try config.url("apns.url", schemes: ["https"], default: "https://api.push.apple.com:443").description
                == "https://api.push.apple.com:443")
        #expect(try config.optionalFile("ca.file", logger: silent) == nil)
        #expect(try config.optionalSecretFile("password.file", logger: silent) == nil)
    }

    @Test("Typed values of another provider are read too")
    func readsTypedValues() throws {
        let config = ConfigReader(provider: InMemoryProvider(values: ["port": 5, "on": true, "text": "7"]))
        #expect(try config.integer("port", default: 1, in: 1...9) == 5)
        #expect(try config.integer("text", default: 1, in: 1...9) == 7)
        #expect(try config.flag("on", default: false))
    }

    @Test("A wrong setting is an error that names the variable and the expected value, and never the default")
    func refusesWrongValues() {
        let config = environment(["HTTP_PORT": "70000", "COUNT": "many", "COLOUR": "blue", "ON": "maybe", "APNS_TIMEOUT_MS": "1.5"])
        #expect(
            sentence { _ = try config.integer("http.port", default: 1, in: 1...65_535) }
                == "HTTP_PORT must be a whole number from 1 to 65535, but is \"70000\".")
        #expect(
            sentence { _ = try config.integer("count", default: 1, in: 1...2) }
                == "COUNT must be a whole number from 1 to 2, but is \"many\".")
        #expect(sentence { _ = try config.choice("colour", default: Colour.red) } == "COLOUR must be one of red, green, but is \"blue\".")
        #expect(sentence { _ = try config.flag("on", default: true) } == "ON must be true or false, but is \"maybe\".")
        #expect(
            sentence { _ = try config.integer("apns.timeoutMs", default: 1, in: 1...2) }
                == "APNS_TIMEOUT_MS must be a whole number from 1 to 2, but is \"1.5\".")
        #expect(sentence { _ = try config.text("name", "a name") } == "NAME must be a name, and is not set.")
    }

    @Test(
        "A URL may hold a password, so neither an error nor a description shows it",
        arguments: [
            "postgresql://user:hunter2@", "mysql://user:hunter2@db/push", "user:hunter2@db", "postgresql://user:hunter2@db:99999/x",
            "postgresql:hunter2",
        ])
    func hidesURLs(_ text: String) throws {
        let words = sentence { _ = try environment(["POSTGRES_URL": text]).url("postgres.url", schemes: ["postgresql"]) }
        #expect(words == "POSTGRES_URL must be a URL beginning with postgresql:// and naming a host.")
        let url = try #require(SettingURL("postgresql://user:hunter2@[::1]:5432/push?password=hunter2"))
        var dumped = ""
        dump(url, to: &dumped)
        #expect(url.description == "postgresql://[::1]:5432" && url.host == "::1")
        #expect(!"\(url) \(String(reflecting: url)) \(dumped)".contains("hunter2"))
    }

    @Test("A secret file is read without its line end; others who may read it are warned about, its content never shown")
    func readsSecretFiles() throws {
        let log = Warnings()
        let file = try TemporaryFile("hunter2\n", permissions: 0o600)
        let config = environment(["PASSWORD_FILE": file.path])
        #expect(try config.secretFile("password.file", logger: log.logger) == "hunter2")
        #expect(log.all == [])
        try file.setPermissions(0o640)
        #expect(try config.secretFile("password.file", logger: log.logger) == "hunter2")
        #expect(log.all.count == 1)
        #expect(
            log.all.first?.contains("PASSWORD_FILE") == true && log.all.first?.contains("640") == true
                && log.all.first?.contains("hunter2") == false)
    }

    @Test("A secret file that is missing, empty or too large is an error", arguments: [("", 1), ("\n", 2), ("hunter2", 10_000)])
    func refusesSecretFiles(_ text: String, times: Int) throws {
        let file = try TemporaryFile(String(repeating: text, count: times), permissions: 0o600)
        let words = sentence { _ = try environment(["PASSWORD_FILE": file.path]).secretFile("password.file", logger: silent) }
        #expect(words.hasPrefix("PASSWORD_FILE must be the path of a readable text file of 1 to 65536 bytes, but is"))
        #expect(!words.contains("hunter2"))
        let missing = sentence { _ = try environment(["PASSWORD_FILE": file.path + ".none"]).secretFile("password.file", logger: silent) }
        #expect(missing.hasPrefix("PASSWORD_FILE must be the path of a readable file, but is"))
        #expect(sentence { _ = try environment([:]).secretFile("password.file", logger: silent) }.hasSuffix("and is not set."))
    }

    // MARK: Tools

    private var silent: Logger { Logger(label: "silent") { _ in SwiftLogNoOpLogHandler() } }

    private func environment(_ variables: [String: String]) -> ConfigReader {
        ConfigReader(provider: EnvironmentVariablesProvider(environmentVariables: variables))
    }

    private func sentence(_ body: () throws -> Void) -> String {
        do {
            try body()
            return "no error"
        } catch {
            return "\(error)"
        }
    }

    private final class Warnings: Sendable {
        private let lines = Mutex<[String]>([])
        var all: [String] { lines.withLock { $0 } }

        var logger: Logger {
            let sink = LogSink { line in self.lines.withLock { $0.append(String(decoding: line, as: UTF8.self)) } }
            return Logger(label: "test") { JSONLogHandler(label: $0, level: .warning, sink: sink) }
        }
    }
}

/// A file that goes when the test does.
private final class TemporaryFile {
    let path: String

    init(_ content: String, permissions: Int) throws {
        path = FileManager.default.temporaryDirectory.appending(path: "settings-\(UUID().uuidString)").path
        try Data(content.utf8).write(to: URL(filePath: path))
        try setPermissions(permissions)
    }

    func setPermissions(_ permissions: Int) throws {
        try FileManager.default.setAttributes([.posixPermissions: permissions], ofItemAtPath: path)
    }

    deinit {
        do { try FileManager.default.removeItem(atPath: path) } catch { Issue.record(error) }
    }
}
