import Logging
import Observability
import PushModel
import StrictJSON
import Synchronization
import Testing

@Suite("The form of a log line")
struct JSONLogHandlerTests {
    @Test("A record is one line of JSON with its time, level, logger, message and flattened metadata")
    func writesOneLine() throws {
        let lines = Lines()
        var logger = lines.logger()
        logger[metadataKey: "app"] = "shop"
        logger.info(
            "Took \"a\" job\nand more",
            metadata: ["job.id": "1", "list": ["a", "b"], "tree": ["leaf": "x", "branch": ["twig": "y"]], "count": .stringConvertible(5)])
        let expected =
            #"{"ts":"2026-06-23T11:30:01.125Z","level":"info","logger":"test","msg":"Took \"a\" job\nand more","app":"shop","count":"5","#
            + #""job.id":"1","list":["a","b"],"tree.branch.twig":"y","tree.leaf":"x"}"# + "\n"
        #expect(lines.all == [expected])
    }

    @Test("A record's own metadata counts more than the logger's, and that more than the provider's")
    func prefersTheNearest() throws {
        let lines = Lines()
        var logger = lines.logger(provider: Logger.MetadataProvider { ["a": "provider", "b": "provider", "c": "provider"] })
        logger[metadataKey: "a"] = "logger"
        logger[metadataKey: "b"] = "logger"
        logger.info("x", metadata: ["a": "record"])
        let value = try lines.only()
        #expect(["a", "b", "c"].map { value[$0]?.stringValue } == ["record", "logger", "provider"])
    }

    @Test("Metadata that is named like a fixed field cannot replace it")
    func keepsFixedFields() throws {
        let lines = Lines()
        lines.logger().info("message", metadata: ["msg": "other", "level": "other", "a": ["b": "nested"], "a.b": "flat"])
        let value = try lines.only()
        #expect(value["msg"]?.stringValue == "message" && value["metadata.msg"]?.stringValue == "other")
        #expect(value["level"]?.stringValue == "info" && value["metadata.level"]?.stringValue == "other")
        #expect(value["a.b"] != nil, "two ways to one name are one field, or the line would not be JSON")
    }

    @Test("An error's type and words are fields")
    func writesErrors() throws {
        let lines = Lines()
        lines.logger().error("Failed", error: ConfigurationError("http.port", expected: "a number"))
        let value = try lines.only()
        #expect(value["error"]?.stringValue == "HTTP_PORT must be a number.")
        #expect(value["error.type"]?.stringValue == "Observability.ConfigurationError")
    }

    @Test("A device token in the metadata shows only its end")
    func hidesTokens() throws {
        let lines = Lines()
        let token = try #require(DeviceToken(hex: "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"))
        lines.logger().info("x", metadata: ["a": "\(token)", "b": .stringConvertible(token), "c": "\([token])"])
        #expect(lines.all.count == 1 && !lines.all[0].contains(token.hex))
        #expect(try lines.only()["b"]?.stringValue == "…1de8f0")
    }

    @Test("The handler cuts long values, so that log collectors take the line")
    func cutsLongValues() throws {
        let lines = Lines()
        lines.logger().info("\(String(repeating: "é", count: 100_000))", metadata: ["a": "\(String(repeating: "x", count: 100_000))"])
        let value = try lines.only()
        #expect(lines.all[0].utf8.count < 3 * JSONLogHandler.maximumValueBytes)
        #expect(value["msg"]?.stringValue?.hasSuffix("…") == true && value["a"]?.stringValue?.hasSuffix("…") == true)
    }

    @Test("Records below the level leave no line")
    func keepsTheLevel() {
        let lines = Lines()
        var logger = lines.logger()
        logger.debug("no")
        logger.logLevel = .debug
        logger.debug("yes")
        #expect(lines.all.count == 1)
    }

    @Test("Lines of many threads do not mix")
    func writesWholeLines() async throws {
        let lines = Lines()
        let logger = lines.logger()
        await withDiscardingTaskGroup { group in
            for task in 0..<8 {
                group.addTask {
                    for index in 0..<100 { logger.info("\(task)", metadata: ["index": "\(index)"]) }
                }
            }
        }
        #expect(lines.all.count == 800)
        for line in lines.all { _ = try JSONValue.parse(Array(line.utf8)) }
    }

    /// The output of a logger.
    private final class Lines: Sendable {
        private let lines = Mutex<[String]>([])

        var all: [String] { lines.withLock { $0 } }

        func only() throws -> JSONValue {
            try #require(all.count == 1)
            return try JSONValue.parse(Array(all[0].utf8))
        }

        func logger(provider: Logger.MetadataProvider? = nil) -> Logger {
            let sink = LogSink { line in self.lines.withLock { $0.append(String(decoding: line, as: UTF8.self)) } }
            return Logger(label: "test") { label in
                JSONLogHandler(label: label, level: .info, sink: sink, metadataProvider: provider, now: { 1_782_214_201_125 })
            }
        }
    }
}
