import Configuration
import Foundation
import Logging
import Observability
import Synchronization
import Testing

@Suite("Misspelt settings are pointed at")
struct NearMissTests {
    @Test(
        "One slip, or two in a name of eight letters or more",
        arguments: [
            ("PREFECTH_NOW", "PREFETCH_NOW"), ("PREFETCHNOW", "PREFETCH_NOW"), ("RABBITMQ_URI", "RABBITMQ_URL"), ("HOTS", "HOST"),
            ("prefetch_now", nil), ("HOME", nil), ("PREFETCH", nil), ("PATH", nil),
        ] as [(String, String?)])
    func nearest(_ word: String, _ meant: String?) {
        #expect(nearestName(to: word, among: ["HOST", "PREFETCH_NOW", "PREFETCH_BULK", "RABBITMQ_URL"]) == meant)
    }

    @Test("A setting that is set was not misspelt") func setAnyway() {
        let found = nearMisses(of: ["HTTP_PORT", "HTTP_HOST"], among: ["HTTP_PORT", "HTTPS_PORT", "HTTP_HSOT"])
        #expect(found.map(\.found) == ["HTTP_HSOT"] && found.map(\.meant) == ["HTTP_HOST"])
    }

    @Test("Reading warns of them, also where what it misses is one of them") func warns() throws {
        let lines = LogLines()
        let logger = Logger(label: "test") { _ in lines }
        let (prefix, prefetch) = (Setting("broker.prefix", "push", ""), Setting("prefetch.now", 200, in: 1...2000, ""))
        let settings = EnvironmentSettings(["PREFECTH_NOW": "5", "HOME": "/root", "BROKER_PREFIX": "p"])
        let read = try settings.read([prefix, prefetch], logger: logger) { try $0.read(prefetch) }
        #expect(read == 200 && lines.messages == ["Unknown setting PREFECTH_NOW; did you mean PREFETCH_NOW?"])
        let url = Setting(required: "postgres.url", "a libpq connection URI", "")
        let required = EnvironmentSettings(["POSTGERS_URL": "x"])
        #expect(throws: ConfigurationError.self) { try required.read([url], logger: logger) { try $0.read(url) } }
        #expect(lines.messages.last == "Unknown setting POSTGERS_URL; did you mean POSTGRES_URL?")
    }

    @Test("No program takes another one's settings, or what images and orchestrators set, for misspelt ones") func strangers() throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let page = try String(contentsOf: root.appending(path: "docs/reference/settings.md"), encoding: .utf8)
        let tables = page.components(separatedBy: "\n## ").dropFirst().map { section in
            Set(section.matches(of: /\| `([A-Z][A-Z_]+)` \|/).map { String($0.output.1) })
        }
        #expect(tables.count == 3)
        #expect(tables.allSatisfy { $0.count > 15 })
        let usual: Set<String> = [
            "PATH", "HOME", "HOSTNAME", "LANG", "TERM", "SHLVL", "PWD", "USER", "LOGNAME", "SHELL", "TZ", "HTTP_PROXY", "HTTPS_PROXY",
            "NO_PROXY",
            "POSTGRES_USER", "POSTGRES_PASSWORD", "POSTGRES_DB", "POSTGRES_PORT", "POSTGRES_SERVICE_HOST", "RABBITMQ_DEFAULT_USER",
            "RABBITMQ_DEFAULT_PASS", "RABBITMQ_PORT", "RABBITMQ_SERVICE_PORT", "KUBERNETES_SERVICE_HOST", "BUILD_COMMIT", "SWIFT_BACKTRACE",
            "INVOCATION_ID", "JOURNAL_STREAM", "NOTIFY_SOCKET", "PUSH_URL", "PUSH_KEY", "PUSH_KEY_FILE",
        ]
        for table in tables {
            let others = tables.reduce(usual) { $0.union($1) }.subtracting(table)
            #expect(nearMisses(of: table, among: others).map { "\($0.found): \($0.meant)" } == [])
        }
    }
}

/// Keeps the messages of warnings.
private final class LogLines: LogHandler, Sendable {
    private let kept = Mutex<[String]>([])
    var messages: [String] { kept.withLock { $0 } }

    var logLevel: Logger.Level {
        get { .info }
        set {}
    }
    var metadata: Logger.Metadata {
        get { [:] }
        set {}
    }
    subscript(metadataKey _: String) -> Logger.Metadata.Value? {
        get { nil }
        set {}
    }

    func log(event: LogEvent) {
        guard event.level == .warning else { return }
        kept.withLock { $0.append("\(event.message)") }
    }
}
