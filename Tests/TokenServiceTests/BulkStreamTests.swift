import Logging
import NIOCore
import Postgres
import PushModel
import StrictJSON
import Synchronization
import TestSupport
import Testing

@testable import TokenServiceApps
@testable import TokenServiceKit
@testable import TokenServiceRegistry
@testable import TokenServiceUpkeep

/// The streams alone, with a registry that the test plays.
@Suite("What a bulk stream holds and waits for", .timeLimit(.minutes(5)))
struct BulkStreamTests {
    private static func app() throws -> App {
        App(
            id: 1, slug: try #require(AppSlug("shop")),
            AppProperties(bundleID: "com.example.shop", devicePolicy: .multi, environments: [.production]))
    }

    private let errors = InternalErrors(count: {}, logger: Logger(label: "test"))

    private static let away = PostgresError(.connectionFailed, operation: "connect", message: "no server there")

    private static func lines(_ answers: inout InstallationImport.Answers) async throws -> [JSONValue] {
        var lines: [JSONValue] = []
        while let buffer = await answers.next() {
            lines += try String(buffer: buffer).split(separator: "\n").map { try JSONValue.parse(Array($0.utf8)) }
        }
        await answers.end()
        return lines
    }

    /// Gives the lines of an import, a hundred at a time, and counts them.
    private struct Feed: AsyncSequence, AsyncIteratorProtocol, Sendable {
        let total: Int
        let given: Counter

        func makeAsyncIterator() -> Feed { self }
        func next() async throws -> ByteBuffer? {
            let first = given.value + 1
            guard first <= total else { return nil }
            let last = Swift.min(first + 99, total)
            given.add(last - first + 1)
            return ByteBuffer(string: (first...last).map { importLine($0) + "\n" }.joined())
        }
    }

    private final class Counter: Sendable {
        private let count = Mutex(0)
        var value: Int { count.withLock { $0 } }
        func add(_ number: Int) { count.withLock { $0 += number } }
    }

    @Test("An import holds two chunks of lines in memory, however long it is") func anImportHoldsTwoChunksHoweverLongItIs() async throws {
        let total = 10_000
        let (given, committed) = (Counter(), Counter())
        let most = Mutex(0)
        let importing = InstallationImport(errors: errors) { registrations, _ in
            #expect(registrations.count <= InstallationImport.chunk.lines)
            // The reader gets every chance to run ahead.
            for _ in 0..<20 { await Task.yield() }
            let underWay = given.value - committed.value
            most.withLock { $0 = max($0, underWay) }
            committed.add(registrations.count)
            return registrations.map { _ in .failure(OwnerMismatch()) }
        }
        var answers = importing.begin(Feed(total: total, given: given), app: try Self.app(), firstLine: 1)
        let reported = try await Self.lines(&answers)
        #expect(reported.last?.number("failed") == Int64(total))
        #expect(reported.compactMap { $0.number("line") } == (1...Int64(total)).map { $0 })
        // One chunk with the registry, one in the queue, one buffer in the reader's hands.
        #expect(most.withLock { $0 } <= 2 * InstallationImport.chunk.lines + 2 * 100)
    }

    @Test("An import holds no more lines if each of a buffer's bytes is one") func blankLines() async throws {
        let queue = LineQueue(limit: InstallationImport.chunk)
        let body = AsyncStream<ByteBuffer> { lines in
            lines.yield(ByteBuffer(string: String(repeating: "\n", count: 65_536)))
            lines.finish()
        }
        let importing = InstallationImport(errors: errors) { _, _ in [] }
        var answers = importing.begin(body, app: try Self.app(), firstLine: 1, queue: queue)
        var (most, last) = (0, "")
        while let buffer = await answers.next() {
            // The reader gets every chance to run ahead.
            for _ in 0..<20 { await Task.yield() }
            most = max(most, queue.count)
            last = String(buffer: buffer).split(separator: "\n").last.map(String.init) ?? last
        }
        await answers.end()
        #expect(most < 2 * InstallationImport.chunk.lines, "\(most)")
        #expect(try JSONValue.parse(Array(last.utf8)).number("through") == 65_536)
    }

    @Test("An export holds one page in memory, however long it is") func anExportHoldsOnePageHoweverLongItIs() async throws {
        let total = 10_000
        let (read, written) = (Counter(), Counter())
        let exporting = InstallationExport(errors: errors) { _, after, limit in
            #expect(read.value == written.value, "a page was read before the one before it was taken")
            let first = after.map { Int($0.low & 0xffff_ffff) + 1 } ?? 1
            let page = (first..<min(first + limit, total + 1)).map {
                ExportedInstallation(id: installation($0), user: nil, tokens: [], profile: InstallationProfile())
            }
            read.add(page.count)
            return page
        }
        var answers = exporting.begin(app: try Self.app(), after: nil)
        var last = ""
        while let buffer = await answers.next() {
            let lines = String(buffer: buffer).split(separator: "\n")
            last = lines.last.map(String.init) ?? last
            written.add(lines.count { !$0.contains("done") })
        }
        #expect(written.value == total)
        #expect(last == #"{"done":true,"count":\#(total)}"#)
    }

    @Test("An import tries again from the first line that the database could not take, in order") func triedAgain() async throws {
        let calls = Mutex<[[PushID]]>([])
        let importing = InstallationImport(errors: errors) { registrations, _ in
            let call = calls.withLock { calls in
                calls.append(registrations.map(\.installation))
                return calls.count
            }
            return registrations.enumerated().map { index, _ in call < 3 && index == 1 ? .failure(Self.away) : .failure(OwnerMismatch()) }
        }
        var answers = importing.begin(Feed(total: 4, given: Counter()), app: try Self.app(), firstLine: 1)
        let reported = try await Self.lines(&answers)
        let ids = (1...4).map { installation($0) }
        #expect(calls.withLock { $0 } == [ids, Array(ids[1...]), Array(ids[2...])])
        #expect(reported.compactMap { $0.number("line") } == [1, 2, 3, 4])
        #expect(reported.last?["done"]?.boolValue == true)
    }

    @Test("If the database stays away, the stream ends with the position to go on from") func resumePosition() async throws {
        let importing = InstallationImport(patience: .zero, errors: errors) { registrations, _ in
            registrations.map { _ in .failure(Self.away) }
        }
        var answers = importing.begin(Feed(total: 4, given: Counter()), app: try Self.app(), firstLine: 11)
        let reported = try await Self.lines(&answers)
        #expect(reported.count == 1)
        #expect(reported[0].number("through") == 10 && reported[0]["error"]?.text("code") == "database_unavailable")

        let exporting = InstallationExport(patience: .zero, errors: errors) { _, _, _ in throw Self.away }
        var pages = exporting.begin(app: try Self.app(), after: installation(7))
        let end = try JSONValue.parse(Array(String(buffer: try #require(await pages.next())).utf8))
        #expect(end["error"]?.text("code") == "database_unavailable" && end.text("after") == installation(7).description)
        #expect(await pages.next() == nil)
    }

    @Test("The splitter finds the same lines wherever a buffer ends") func lineSplitting() {
        for size in 1...7 {
            var splitter = LineSplitter(maximumBytes: 3)
            var lines: [LineSplitter.Line] = []
            let bytes = Array("abc\n\nabcd\nlongerline\nab".utf8)
            for start in stride(from: 0, to: bytes.count, by: size) {
                var buffer = ByteBuffer(bytes: bytes[start..<min(start + size, bytes.count)])
                while let line = splitter.next(in: &buffer) { lines.append(line) }
            }
            if let last = splitter.finish() { lines.append(last) }
            #expect(lines == [.text(Array("abc".utf8)), .text([]), .tooLong, .tooLong, .text(Array("ab".utf8))])
        }
    }
}
