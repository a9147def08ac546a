import Logging
import Observability
import StrictJSON
import Synchronization
import Testing

@Suite("A lasting problem does not fill the log")
struct RepeatedLinesTests {
    /// A logger whose clock stands still.
    private final class Log: Sendable {
        private let time = Mutex(ContinuousClock.now)
        private let lines = Mutex<[String]>([])
        private let repeats: Mutex<RepeatedLines?> = Mutex(nil)

        var logger: Logger {
            let repeats = repeats.withLock { repeats in
                let one = repeats ?? RepeatedLines(now: { self.time.withLock { $0 } })
                repeats = one
                return one
            }
            let sink = LogSink { line in self.lines.withLock { $0.append(String(decoding: line, as: UTF8.self)) } }
            return Logger(label: "test") { JSONLogHandler(label: $0, level: .info, sink: sink, repeats: repeats) }
        }

        func advance(by duration: Duration) { time.withLock { $0 += duration } }

        /// The lines since the last call: each message and its number of omissions.
        func taken() throws -> [String] {
            try lines.withLock { lines in
                defer { lines = [] }
                return try lines.map { line in
                    let value = try JSONValue.parse(Array(line.utf8))
                    return (value["msg"]?.stringValue ?? "") + (value["repeated"]?.stringValue.map { " +\($0)" } ?? "")
                }
            }
        }
    }

    @Test("A problem is written once, and every 30 s while it lasts, with the number of omitted lines")
    func onceAndEveryHalfMinute() throws {
        let log = Log()
        for second in 0..<90 {
            log.logger.warning("away", metadata: ["error": "refused", "retry_ms": "\(second)", "client": "\(second % 2)"])
            log.advance(by: .seconds(1))
        }
        #expect(try log.taken() == ["away", "away +29", "away +29"])
    }

    @Test("It is written again when it changes")
    func whenItChanges() throws {
        let log = Log()
        for error in ["refused", "refused", "timed out", "refused"] { log.logger.warning("\(error)", metadata: ["error": "\(error)"]) }
        log.logger.error("refused", metadata: ["error": "refused"])
        log.logger.warning("refused", metadata: ["error": "refused", "app": "shop"])
        #expect(try log.taken() == ["refused", "timed out", "refused", "refused"])
    }

    @Test("Other lines, and too many different problems, are all written")
    func otherLines() throws {
        let log = Log()
        for _ in 1...3 { log.logger.info("hello") }
        for _ in 1...2 { log.logger.critical("the end") }
        #expect(try log.taken().count == 5)
        for number in 1...300 { log.logger.warning("away", metadata: ["app": "\(number)"]) }
        #expect(try log.taken().count == 300)
        log.advance(by: RepeatedLines.interval)
        for _ in 1...2 { log.logger.warning("away", metadata: ["app": "1"]) }
        #expect(try log.taken() == ["away"], "a problem that is over is forgotten")
    }
}
