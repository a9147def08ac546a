import FoundationEssentials
import PushAPI
import StrictJSON
import Synchronization
import Testing

@testable import PushCtl

@Suite("Many notifications from a file")
struct BatchTests {
    private static func lines(_ text: String, from firstLine: Int = 1) -> BatchLines {
        let rest = Mutex(Array(text.utf8))
        return BatchLines(firstLine: firstLine) {
            rest.withLock { bytes in
                defer { bytes = [] }
                return bytes
            }
        }
    }

    private static func groups(_ lines: BatchLines) throws -> [[BatchLine]] {
        var (lines, groups) = (lines, [[BatchLine]]())
        while let group = try lines.nextGroup() { groups.append(group) }
        return groups
    }

    private static func words(_ lines: [BatchLine]) -> [String] {
        lines.map { line in
            switch line {
            case .item(let number, let json): "\(number) \(String(decoding: json, as: UTF8.self))"
            case .unreadable(let number, let reason): "\(number): \(reason)"
            }
        }
    }

    @Test("Lines go in groups of at most a thousand, with the numbers that they have in the file") func counts() throws {
        let groups = try Self.groups(Self.lines((1...2001).map { "\($0)" }.joined(separator: "\n")))
        #expect(groups.map(\.count) == [1000, 1000, 1])
        #expect(groups.flatMap { $0 }.map(\.number) == Array(1...2001))
        #expect(try Self.groups(Self.lines("")).isEmpty)
    }

    @Test("A group is no larger than a request may be") func sizes() throws {
        let line = #"{"a":"\#(String(repeating: "x", count: 1_000_000))"}"#
        let groups = try Self.groups(Self.lines(Array(repeating: line, count: 5).joined(separator: "\n")))
        #expect(groups.map(\.count) == [4, 1])
        let items = groups[0].compactMap { line -> [UInt8]? in if case .item(_, let json) = line { json } else { nil } }
        #expect(items.count == 4 && BatchLines.body(of: items).count <= BatchLines.maximumBytes)
    }

    @Test("Blank lines are passed over, and a line that is not JSON does not go with the others") func badLines() throws {
        let text = "{}\n\n \r\n{\n[1] 2\n{\"a\":1}\r\n"
        let fault = "the text ends inside an array or object"
        let groups = try Self.groups(Self.lines(text))
        #expect(groups.count == 1)
        #expect(Self.words(groups[0]) == ["1 {}", "4: column 2: \(fault)", "5: column 5: nothing may follow the value", "6 {\"a\":1}\r"])
        #expect(try Self.groups(Self.lines(text, from: 5)).first?.map(\.number) == [5, 6])
    }

    @Test("A byte order mark is named on the line that has it") func byteOrderMark() throws {
        let words = Self.words(try Self.groups(Self.lines("\u{feff}{}\n{}\n")).flatMap { $0 })
        #expect(
            words == [
                "1: column 1: a byte order mark (BOM, EF BB BF) stands before the value: write the text in UTF-8 without one", "2 {}",
            ])
    }

    @Test("A list of names is read without a byte order mark and without line ends") func names() throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "names-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        try Data("\u{feff}ada\r\n\nbob\n".utf8).write(to: URL(filePath: path))
        #expect(try SendCommand.lines(of: path) == ["ada", "bob"])
    }

    private static let results = #"""
        {"results":[{"id":"a","state":"accepted","deliveries":1,"replay":true},{"status":400,"code":"invalid_request","detail":"see errors",
        "errors":[{"pointer":"/to","code":"missing","detail":"required"}]},{"id":"c","state":"no_targets","deliveries":0}]}
        """#

    @Test("Each line's result stands in the file's order, and a request that cannot be taken yet is sent again") func order() async throws {
        let calls = Mutex(0)
        let reported = Mutex<[BatchResult]>([])
        let run = BatchRun(
            send: { body in
                #expect(String(decoding: body, as: UTF8.self) == #"{"notifications":[{},{},{}]}"#)
                let call = calls.withLock { calls -> Int in
                    calls += 1
                    return calls
                }
                if call < 3 { throw PushAPIError.refused(PushAPI.Problem(status: 503, nil)) }
                return try JSONValue.parse(Array(Self.results.utf8))
            }, maximumAttempts: 3, pause: { _ in }, onResult: { result in reported.withLock { $0.append(result) } })
        #expect(try await run.run(Self.lines("{}\n{\n{}\n{}")) == 2)
        let results = reported.withLock { $0 }
        #expect(
            results.map(\.text) == [
                "1  a  accepted  1 delivery  accepted before", "2  refused  not JSON, column 2: the text ends inside an array or object",
                "3  refused  400 invalid_request; see errors; /to: required", "4  c  no_targets  0 deliveries",
            ])
        #expect(results[0].json == #"{"line":1,"id":"a","state":"accepted","deliveries":1,"replay":true}"#)
        #expect(
            results[1].json
                == #"{"line":2,"code":"malformed_json","detail":"column 2: the text ends inside an array or object","retryable":false}"#)
    }

    @Test("A batch that must stop says with which line to continue") func givenUp() async throws {
        let tried = Mutex(0)
        func failure(_ send: @escaping ([UInt8]) async throws -> JSONValue) async -> String? {
            let run = BatchRun(send: send, maximumAttempts: 2, pause: { _ in tried.withLock { $0 += 1 } }, onResult: { _ in })
            do {
                _ = try await run.run(Self.lines("{}\n{}\n\n{}", from: 2))
                return nil
            } catch {
                return "\(error)"
            }
        }
        let busy = await failure { _ in throw PushAPIError.refused(PushAPI.Problem(status: 503, nil)) }
        #expect(busy?.hasPrefix("given up after 2 attempts: status 503; lines 2 to 4 have no result, go on with --from-line 2") == true)
        #expect(tried.withLock { $0 } == 1)
        let refused = await failure { _ in throw CommandFailure("403") }
        #expect(refused?.hasPrefix("403; lines 2 to 4 have no result") == true)
        let short = await failure { _ in try JSONValue.parse(Array(#"{"results":[]}"#.utf8)) }
        #expect(short?.hasPrefix("the answer has 0 results; lines 2 to 4") == true)
    }
}
