import Foundation
import FoundationEssentials
package import Logging
import PushModel
import StrictJSON
import Synchronization

/// Writes each record as one line of JSON: `ts`, `level`, `logger`, `msg`, then the metadata, flattened (`a: {b: 1}` is `a.b`), sorted by
/// key.
///
/// Metadata under one of the four fixed names appears as `metadata.<name>`. This code does not search for secrets: the types that hold them
/// describe themselves without (`DeviceToken`), and payloads are never logged.
package struct JSONLogHandler: LogHandler {
    /// A longer message or value is cut: one record stays one line that every collector takes.
    package static let maximumValueBytes = 8192

    package var logLevel: Logger.Level
    package var metadata: Logger.Metadata = [:]
    package var metadataProvider: Logger.MetadataProvider?
    private let label: String
    private let sink: LogSink
    private let repeats: RepeatedLines?
    private let now: @Sendable () -> Int64

    /// - Parameters:
    ///   - repeats: Leaves out repeated lines; nil writes everything.
    ///   - now: UNIX milliseconds.
    package init(
        label: String, level: Logger.Level, sink: LogSink, repeats: RepeatedLines? = nil, metadataProvider: Logger.MetadataProvider? = nil,
        now: @escaping @Sendable () -> Int64 = { Int64(Date().timeIntervalSince1970 * 1000) }
    ) {
        self.label = label
        self.logLevel = level
        self.sink = sink
        self.repeats = repeats
        self.metadataProvider = metadataProvider
        self.now = now
    }

    package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    package func log(event: LogEvent) {
        var fields: [String: FlatValue] = [:]
        Self.flatten(metadata, into: &fields)
        if let own = event.metadata { Self.flatten(own, into: &fields) }
        if let error = event.error {
            fields["error"] = .text("\(error)")
            fields["error.type"] = .text(String(reflecting: type(of: error)))
        }
        if let repeats {
            let omitted = repeats.admit(
                event.level, label: label, message: event.message.description, fields: fields.mapValues(\.description))
            guard let omitted else { return }
            if omitted > 0 { fields[RepeatedLines.countKey] = .text("\(omitted)") }
        }
        if let provided = metadataProvider?.get() {
            var outer: [String: FlatValue] = [:]
            Self.flatten(provided, into: &outer)
            fields.merge(outer) { own, _ in own }
        }
        sink.write(line(event, fields))
    }

    private func line(_ event: LogEvent, _ fields: [String: FlatValue]) -> [UInt8] {
        var writer = JSONWriter()
        writer.object { writer in
            writer.plainField("ts") { RFC3339.append(milliseconds: now(), to: &$0) }
            writer.field("level", event.level.rawValue)
            writer.field("logger", label)
            writer.field("msg", Self.cut(event.message.description))
            for (key, value) in fields.sorted(by: { $0.key < $1.key }) {
                writer.name(Self.fixedNames.contains(key) ? "metadata.\(key)" : key)
                value.write(to: &writer)
            }
        }
        return writer.bytes + [UInt8(ascii: "\n")]
    }

    private static let fixedNames: Set<String> = ["ts", "level", "logger", "msg"]

    private enum FlatValue: CustomStringConvertible {
        case text(String)
        case list([String])

        var description: String {
            switch self {
            case .text(let text): text
            case .list(let texts): texts.description
            }
        }

        func write(to writer: inout JSONWriter) {
            switch self {
            case .text(let text): writer.value(JSONLogHandler.cut(text))
            case .list(let texts):
                writer.array { writer in
                    for text in texts { writer.value(JSONLogHandler.cut(text)) }
                }
            }
        }
    }

    private static func flatten(_ metadata: Logger.Metadata, under prefix: String = "", into fields: inout [String: FlatValue]) {
        for (key, value) in metadata {
            switch value {
            case .string(let text): fields[prefix + key] = .text(text)
            case .stringConvertible(let convertible): fields[prefix + key] = .text(convertible.description)
            case .array(let values): fields[prefix + key] = .list(values.map(\.description))
            case .dictionary(let inner): flatten(inner, under: prefix + key + ".", into: &fields)
            }
        }
    }

    private static func cut(_ text: String) -> String {
        guard text.utf8.count > maximumValueBytes else { return text }
        return String(decoding: text.utf8.prefix(maximumValueBytes), as: UTF8.self) + "…"
    }
}

/// The destination of the log's lines. Lines of several threads never mix.
package final class LogSink: Sendable {
    package static let standardError = LogSink { line in
        do {
            try FileHandle.standardError.write(contentsOf: Data(line))
        } catch {
            // An error of the log itself has no place to be logged, and must not stop the service.
        }
    }

    private let turn = Mutex(())
    private let output: @Sendable ([UInt8]) -> Void

    /// - Parameter output: Called by one thread at a time, with a whole line and its line feed.
    package init(_ output: @escaping @Sendable ([UInt8]) -> Void) { self.output = output }

    func write(_ line: [UInt8]) {
        turn.withLock { _ in output(line) }
    }
}

/// Keeps the same fault from filling the log: a warning or an error is written once, again when its text changes, and every 30 s while it
/// lasts. A line says how often it was left out before.
///
/// A loop therefore reports each of its failures, and does not count them itself.
package final class RepeatedLines: Sendable {
    package static let interval: Duration = .seconds(30)
    /// How many times the line was left out since it was last written.
    package static let countKey = "repeated"
    private static let maximumKnown = 256
    /// Fields that vary while the fault is the same: how much waits, for how long, and on which of a program's connections.
    private static let varying: Set<String> = ["client", "count", "failures", "retry_ms", "unconfirmed", "unsettled"]

    private struct Line: Hashable {
        let level: Logger.Level
        let label: String
        let message: String
        let fields: [String: String]
    }

    private struct Known {
        var written: ContinuousClock.Instant
        var leftOut = 0
    }

    private let now: @Sendable () -> ContinuousClock.Instant
    private let known = Mutex<[Line: Known]>([:])

    package init(now: @escaping @Sendable () -> ContinuousClock.Instant = { .now }) { self.now = now }

    /// - Returns: nil if the line must be left out; else how often it was left out since it was last written.
    func admit(_ level: Logger.Level, label: String, message: String, fields: [String: String]) -> Int? {
        guard level == .warning || level == .error else { return 0 }
        let now = now()
        let line = Line(level: level, label: label, message: message, fields: fields.filter { !Self.varying.contains($0.key) })
        return known.withLock { known in
            if let earlier = known[line], now - earlier.written < Self.interval {
                known[line]?.leftOut += 1
                return nil
            }
            let leftOut = known.removeValue(forKey: line)?.leftOut ?? 0
            if known.count >= Self.maximumKnown { known = known.filter { now - $0.value.written < Self.interval } }
            // Beyond that many different lines at once, each is written.
            if known.count < Self.maximumKnown { known[line] = Known(written: now) }
            return leftOut
        }
    }
}
