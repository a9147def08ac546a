import BenchmarkSupport
import Foundation
import StrictJSON
import Testing

@Suite("A benchmark loses no figure that it has measured")
struct BenchmarkReportTests {
    private struct Broken: Error {}

    /// - Returns: the JSON object, and whether publishing it threw.
    private static func publish(_ report: BenchmarkReport) throws -> (object: JSONValue, hasFailed: Bool) {
        let path = FileManager.default.temporaryDirectory.appending(path: "report-\(UUID())").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        var hasFailed = false
        do { try report.publish(json: path) } catch is BenchmarkError { hasFailed = true }
        return (try JSONValue.parse(Array(try Data(contentsOf: URL(filePath: path)))), hasFailed)
    }

    @Test("A part that fails takes no figures of the others with it, and the program fails in the end") func failingPart() async throws {
        var report = BenchmarkReport("test")
        await report.add("first") { [Measure(name: "a", value: 1, unit: "s")] }
        await report.add("second") { throw Broken() }
        await report.add("third") { [Measure(name: "c", value: 3, unit: "s")] }
        let (object, hasFailed) = try Self.publish(report)
        #expect(hasFailed && object["failed"]?.arrayValue?.compactMap(\.stringValue) == ["second"])
        #expect(object["measures"]?.arrayValue?.compactMap { $0["name"]?.stringValue } == ["a", "c"])
    }

    @Test("Only the wanted parts run, and a report without failures throws nothing") func wantedParts() async throws {
        var report = BenchmarkReport("test", wanted: ["third"])
        await report.add("second") { throw Broken() }
        await report.add("third") { [Measure(name: "c", value: 3, unit: "s")] }
        let (object, hasFailed) = try Self.publish(report)
        #expect(!hasFailed && object["failed"] == nil && object["measures"]?.arrayValue?.count == 1)
    }
}
