import APNs
import Logging
import Synchronization
import Testing

@testable import Dispatcher

@Suite("Log lines about connections")
struct NoteLogTests {
    @Test(
        "Each event of a connection is one line that says where and why",
        arguments: [
            (.connectionOpened(address: "192.0.2.1:443"), .info, "192.0.2.1:443", nil),
            (.connectionFailed(address: "192.0.2.1:443", reason: "tls: x"), .warning, "192.0.2.1:443", "tls: x"),
            (.connectionRetired(address: "192.0.2.1:443", reason: "goaway Shutdown"), .info, "192.0.2.1:443", "goaway Shutdown"),
            (.connectionClosed(address: "192.0.2.1:443", reason: "drained"), .info, "192.0.2.1:443", "drained"),
            (.stateChanged(.paused(reason: "InvalidProviderToken")), .error, nil, "InvalidProviderToken"),
            (.stateChanged(.unavailable(reason: "InternalServerError")), .error, nil, "InternalServerError"),
            (.stateChanged(.ready), .info, nil, nil),
        ] as [(APNsPoolEvent, Logger.Level, String?, String?)])
    func lines(event: APNsPoolEvent, level: Logger.Level, address: String?, reason: String?) {
        let lines = Lines()
        var logger = Logger(label: "test", factory: { _ in lines })
        logger.logLevel = .trace
        NoteLog(logger: logger).write(event, credential: "shop", environment: "production", service: .broadcast)
        let line = lines.all.first
        #expect(lines.all.count == 1)
        #expect(line?.level == level)
        #expect(line?.metadata["credential"] == "shop" && line?.metadata["environment"] == "production")
        #expect(line?.metadata["api"] == "broadcast")
        #expect(line?.metadata["server.address"] == address.map { "\($0)" })
        #expect(line?.metadata["reason"] == reason.map { "\($0)" })
    }
}

/// Keeps the log lines.
final class Lines: LogHandler {
    struct Line {
        let message: String
        let level: Logger.Level
        let metadata: Logger.Metadata
    }

    private let lines = Mutex<[Line]>([])

    var all: [Line] { lines.withLock { $0 } }
    var metadata: Logger.Metadata {
        get { [:] }
        set {}
    }
    var logLevel: Logger.Level {
        get { .trace }
        set {}
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { nil }
        set {}
    }

    func log(event: LogEvent) {
        lines.withLock { $0.append(Line(message: event.message.description, level: event.level, metadata: event.metadata ?? [:])) }
    }
}
