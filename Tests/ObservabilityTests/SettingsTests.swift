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
            "POSTGRES_URL": "postgresql://db.example:5433/push", "EMPTY": "",
        ])
        #expect(try config.read(Setting("http.port", 1, in: 1...65_535, "")) == 8081)
        #expect(try config.read(Setting(required: "name", "a name", "")) == "x")
        #expect(try config.read(Setting.seconds("wait", 1, in: 1...10, "")) == .seconds(5))
        #expect(try config.read(Setting("colour", Colour.red, "")) == .green)
        #expect(try config.read(Setting("on", false, "")))
        let url = try #require(try config.read(Setting(url: "postgres.url", schemes: ["postgresql", "postgres"], "")))
        #expect((url.scheme, url.host, url.port) == ("postgresql", "db.example", 5433))
        #expect(try config.read(Setting(optional: "empty", "")) == nil, "an empty variable is one that is not set")
    }

    @Test("A missing setting has its default")
    func fallsBack() throws {
        let config = environment([:])
        #expect(try config.read(Setting("http.port", 8080, in: 1...65_535, "")) == 8080)
        #expect(try config.read(Setting("name", "y", "")) == "y")
        #expect(try config.read(Setting(optional: "n", in: 1...2, "")) == nil)
        #expect(try config.read(Setting("colour", Colour.red, "")) == .red)
        #expect(try config.read(Setting("on", true, "")))
        #expect(try config.read(Setting(url: "apns.url", schemes: ["https"], "")) == nil)
        #expect(try config.read(FileSetting("ca.file", ""), logger: silent) == nil)
        #expect(try config.read(FileSetting(secret: "password.file", ""), logger: silent) == nil)
    }

    @Test("Typed values of another provider are read too")
    func readsTypedValues() throws {
        let config = ConfigReader(provider: InMemoryProvider(values: ["port": 5, "on": true, "text": "7"]))
        #expect(try config.read(Setting("port", 1, in: 1...9, "")) == 5)
        #expect(try config.read(Setting("text", 1, in: 1...9, "")) == 7)
        #expect(try config.read(Setting("on", false, "")))
    }

    @Test("A wrong setting is an error that names the variable and the expected value, and never the default")
    func refusesWrongValues() {
        let config = environment(["HTTP_PORT": "70000", "COUNT": "many", "COLOUR": "blue", "ON": "maybe", "APNS_TIMEOUT_MS": "1.5"])
        #expect(
            sentence { _ = try config.read(Setting("http.port", 1, in: 1...65_535, "")) }
                == "HTTP_PORT must be a whole number from 1 to 65535, but is \"70000\".")
        #expect(
            sentence { _ = try config.read(Setting("count", 1, in: 1...2, "")) }
                == "COUNT must be a whole number from 1 to 2, but is \"many\".")
        #expect(sentence { _ = try config.read(Setting("colour", Colour.red, "")) } == "COLOUR must be one of red, green, but is \"blue\".")
        #expect(sentence { _ = try config.read(Setting("on", true, "")) } == "ON must be true or false, but is \"maybe\".")
        #expect(
            sentence { _ = try config.read(Setting("apns.timeoutMs", 1, in: 1...2, "")) }
                == "APNS_TIMEOUT_MS must be a whole number from 1 to 2, but is \"1.5\".")
        #expect(sentence { _ = try config.read(Setting(required: "name", "a name", "")) } == "NAME must be a name, and is not set.")
    }

    @Test(
        "A URL may hold a password, so neither an error nor a description shows it",
        arguments: [
            "postgresql://user:hunter2@", "mysql://user:hunter2@db/push", "user:hunter2@db", "postgresql://user:hunter2@db:99999/x",
            "postgresql:hunter2", "postgresql://user:hunter2@db/push", "postgresql://user:hunter2@d%62/push",
        ])
    func hidesURLs(_ text: String) throws {
        let words = sentence { _ = try environment(["POSTGRES_URL": text]).read(Setting(url: "postgres.url", schemes: ["postgresql"], "")) }
        #expect(words.hasPrefix("POSTGRES_URL must be a URL beginning with postgresql:// and naming a host"))
        #expect(!words.contains("hunter2"))
        let url = try #require(SettingURL("postgresql://user:hunter2@[::1]:5432/push?password=hunter2"))
        var dumped = ""
        dump(url, to: &dumped)
        #expect(url.description == "postgresql://[::1]:5432" && url.host == "::1")
        #expect(!"\(url) \(String(reflecting: url)) \(dumped)".contains("hunter2"))
    }

    @Test("A user and a password in a URL are refused, with the setting that holds them")
    func credentialsInURL() throws {
        let config = environment(["PROXY_URL": "http://user:hunter2@proxy:3128"])
        let credentials = FileSetting(secret: "proxy.credentials.file", "")
        #expect(
            sentence { _ = try config.read(Setting(url: "proxy.url", schemes: ["http"], credentials: credentials, "")) }
                == "PROXY_URL must be a URL beginning with http:// and naming a host without a user and a password: "
                + "PROXY_CREDENTIALS_FILE names the file with them.")
        #expect(
            sentence { _ = try config.read(Setting(url: "proxy.url", schemes: ["http"], "")) }.hasSuffix("without a user and a password."))
    }

    @Test(
        "A URL keeps its host as it was written, and has a port that is one",
        arguments: [
            ("https://xn--e1afmkfd.example/a?b", "xn--e1afmkfd.example", nil), ("https://XN--EXMPLE-CUA.com:1", "XN--EXMPLE-CUA.com", 1),
            ("https://[::1]:65535", "::1", 65_535), ("https://10.0.0.1:0443/", "10.0.0.1", 443), ("https://host:/x", "host", nil),
        ] as [(String, String, Int?)])
    func hosts(text: String, host: String, port: Int?) throws {
        let url = try SettingURL.parse(text)
        #expect((url.host, url.port) == (host, port))
    }

    @Test(
        "Any other port or host is an error that names it",
        arguments: [
            ("https://host:0", "has a port that is not from 1 to 65535"), ("https://host:65536", "has a port that is not from 1 to 65535"),
            ("https://host:18446744073709552059", "has a port that is not from 1 to 65535"),
            ("https://пример.example", "has characters that are not printable ASCII: write an international host name as xn--…"),
            ("https://h%6fst", "has a host name with a %"),
            ("https:///x", "is no URL with a scheme and a host"), ("host:80", "is no URL with a scheme and a host"),
            ("https://host:80a", "is no URL with a scheme and a host"),
        ])
    func wrongURLs(text: String, fault: String) {
        let error = #expect(throws: SettingURL.Fault.self) { try SettingURL.parse(text) }
        #expect(error?.description == fault)
    }

    @Test("A path that leads to a folder, or begins with ~, is named so") func paths() {
        let folder = FileManager.default.temporaryDirectory.path
        let config = environment(["A_FILE": folder, "B_FILE": "~/keys/b"])
        #expect(
            sentence { _ = try config.read(FileSetting("a.file", ""), logger: silent) }
                == "A_FILE must be the path of a readable file (it is a folder), but is \"\(folder)\".")
        #expect(
            sentence { _ = try config.read(FileSetting(required: "b.file", ""), logger: silent) }.contains(
                "(there is no such file (a ~ stands for no folder here"))
    }

    @Test("A secret file is read without its line end; others who may read it are warned about, its content never shown")
    func readsSecretFiles() throws {
        let log = Warnings()
        let file = try TemporaryFile("hunter2\n", permissions: 0o600)
        let config = environment(["PASSWORD_FILE": file.path])
        #expect(try config.read(Self.password, logger: log.logger) == "hunter2")
        #expect(log.all == [])
        try file.setPermissions(0o640)
        #expect(try config.read(Self.password, logger: log.logger) == "hunter2")
        #expect(log.all.count == 1)
        #expect(
            log.all.first?.contains("PASSWORD_FILE") == true && log.all.first?.contains("640") == true
                && log.all.first?.contains("hunter2") == false)
    }

    @Test("A secret file that is missing, empty or too large is an error", arguments: [("", 1), ("\n", 2), ("hunter2", 10_000)])
    func refusesSecretFiles(_ text: String, times: Int) throws {
        let file = try TemporaryFile(String(repeating: text, count: times), permissions: 0o600)
        let words = sentence { _ = try environment(["PASSWORD_FILE": file.path]).read(Self.password, logger: silent) }
        #expect(words.hasPrefix("PASSWORD_FILE must be the path of a readable text file of 1 to 65536 bytes"))
        #expect(!words.contains("hunter2"))
        let missing = sentence { _ = try environment(["PASSWORD_FILE": file.path + ".none"]).read(Self.password, logger: silent) }
        #expect(missing.hasPrefix("PASSWORD_FILE must be the path of a readable file (there is no such file), but is"))
        #expect(
            sentence { _ = try environment([:]).read(FileSetting(required: "b.file", ""), logger: silent) }
                == "B_FILE must be the path of a readable file, and is not set.")
    }

    @Test("A declaration says its default and its values to `--help` and to the handbook") func describes() {
        let settings: [any DocumentedSetting] = [
            Setting("backlog.limit", 100_000, in: 1...10_000_000, "what may wait"), Setting("colour", Colour.red, "of `all`"),
            Setting("threads", 4, shown: "the number of processors", in: 1...8, "event loops"), Setting(fraction: "ratio", 0.01, "a part"),
            Setting(url: "proxy.url", schemes: ["http", "https"], "the way out"), FileSetting(required: "key.file", "the key"),
        ]
        #expect(
            settings.markdown == """
                | variable | default | values | meaning |
                | --- | --- | --- | --- |
                | `BACKLOG_LIMIT` | `100000` | 1 to 10000000 | what may wait |
                | `COLOUR` | `red` | `red`, `green` | of `all` |
                | `THREADS` | `the number of processors` | 1 to 8 | event loops |
                | `RATIO` | `0.01` | 0 to 1 | a part |
                | `PROXY_URL` | none | `http://host:port` or `https://host:port` | the way out |
                | `KEY_FILE` | required | – | the key |
                """)
        #expect(
            settings.help == """
                Settings are environment variables (name, default, values and meaning):

                  BACKLOG_LIMIT  100000
                      1 to 10000000: what may wait
                  COLOUR         red
                      red, green: of all
                  THREADS        the number of processors
                      1 to 8: event loops
                  RATIO          0.01
                      0 to 1: a part
                  PROXY_URL      none
                      http://host:port or https://host:port: the way out
                  KEY_FILE       required
                      the key
                """)
    }

    // MARK: Tools

    private static let password = FileSetting(secret: "password.file", "")

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
