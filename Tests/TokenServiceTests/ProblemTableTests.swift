import FoundationEssentials
import HTTPTypes
import Testing
import TokenService

/// The sources are read as text: an error is thrown in many places, and a test that provoked each one would miss the next.
@Suite("The table of problems is what the code throws")
struct ProblemTableTests {
    private static func sources() throws -> [String] {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "Services/TokenService/Core")
        let paths = try FileManager.default.subpathsOfDirectory(atPath: root.path).filter { $0.hasSuffix(".swift") }
        return try paths.map { String(decoding: try Data(contentsOf: root.appending(path: $0)), as: UTF8.self) }
    }

    private static func words(_ pattern: String) throws -> [[String]] {
        let expression = try Regex(pattern)
        return try sources().flatMap { source in
            source.matches(of: expression).map { match in match.output.dropFirst().map { String($0.substring ?? "") } }
        }
    }

    @Test("The table has every problem that the code throws, with its title, and no other") func thrownCodes() throws {
        let stated = try Self.words(#"APIError\(\s*(HTTPResponse\.Status\([^)]*\)|[^,]+?),\s*"([a-z0-9_]+)",\s*"([^"]*)""#)
        let invalid = try Self.words(#"\.invalid\(\s*[^,\n]+,\s*"([a-z0-9_]+)","#)
        let unavailable = try Self.words(#"\bunavailable\(\s*"([a-z0-9_]+)","#)
        #expect(stated.count > 8 && invalid.count > 3 && unavailable.count > 1, "the expressions no longer fit the sources")
        for words in stated {
            guard let code = ProblemCode(rawValue: words[1]) else {
                Issue.record("\(words[1]) is not in the table")
                continue
            }
            #expect(words[2] == code.kind.title, "\(code)")
        }
        for words in invalid {
            #expect(ProblemCode(rawValue: words[0])?.kind.status == 400, "\(words[0]) is not in the table, or not as a 400")
        }
        for words in unavailable {
            let kind = ProblemCode(rawValue: words[0])?.kind
            #expect(kind?.status == 503 && kind?.isRetryable == true, "\(words[0]) is not in the table, or not as a retryable 503")
        }
        let thrown = Set(stated.map { $0[1] } + invalid.map { $0[0] } + unavailable.map { $0[0] })
        for code in ProblemCode.allCases { #expect(thrown.contains(code.rawValue), "nothing throws \(code.rawValue)") }
    }

    @Test("Every problem belongs to an operation") func answeredProblems() {
        let answered = Set(OpenAPIDocument.operations.flatMap(\.problems))
        // An operation is a method that the path takes.
        for code in ProblemCode.allCases where code != .methodNotAllowed {
            #expect(answered.contains(code), "no operation answers \(code.rawValue)")
        }
    }
}
