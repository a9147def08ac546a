import Logging
import Synchronization

/// Remembers what was logged, whatever its level.
final class LogLines: LogHandler {
    private let lines = Mutex<[String]>([])

    /// Message and metadata of each line.
    var all: [String] { lines.withLock { $0 } }
    var logger: Logger { Logger(label: "test", factory: { _ in self }) }

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

    func log(event: LogEvent) { lines.withLock { $0.append("\(event.message) \(event.metadata ?? [:])") } }
}
