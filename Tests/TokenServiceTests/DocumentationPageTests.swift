import OpenSSL
import Testing
import TokenServiceAPI
import TokenServiceApps
import TokenServiceKit

@Suite("The service serves the description to every client that reaches the port", .timeLimit(.minutes(5)))
struct DocumentationPageTests {
    private static let paths = ["/openapi.json", "/docs"]

    @Test("The description needs no key, and a client loads it again only if it changed") func conditionalRequests() async throws {
        try await RunningService.run { running in
            let anyone = running.client.with(key: nil)
            for path in Self.paths {
                let answer = try await anyone.get(path)
                #expect(answer.status == 200)
                let tag = try #require(answer.header("etag"))
                for known in [tag, "W/\(tag)", "\"other\", \(tag)", "*"] {
                    let again = try await anyone.call("GET", path, headers: ["if-none-match": known])
                    #expect(again.status == 304, "\(known)")
                    #expect(again.bytes.isEmpty && again.header("etag") == tag)
                }
                #expect(try await anyone.call("GET", path, headers: ["if-none-match": "\"other\""]).status == 200)
                let head = try await anyone.call("HEAD", path)
                #expect(head.status == 200 && head.bytes.isEmpty)
                #expect(head.header("content-length") == "\(answer.bytes.count)")
                #expect(head.header("content-type") == answer.header("content-type"))
            }
            #expect(try await anyone.get("/openapi.json").bytes == Array(OpenAPIDocument.text.utf8))
        }
    }

    @Test("The page loads nothing from other hosts, and its policy allows its style and its script") func contentPolicy() async throws {
        try await RunningService.run { running in
            let answer = try await running.client.with(key: nil).get("/docs")
            let policy = try #require(answer.header("content-security-policy"))
            #expect(policy.hasPrefix("default-src 'none'; style-src 'sha256-"))
            let html = String(decoding: answer.bytes, as: UTF8.self)
            for forbidden in ["<script ", "<link", "<img", "<iframe", "src=", "@import", "url(", "style=\"", " onclick"] {
                #expect(!html.contains(forbidden), "\(forbidden)")
            }
            let allowed = policy.pieces(after: "sha256-", upTo: "=")
            for (index, tag) in ["style", "script"].enumerated() {
                let content = try #require(html.split(separator: "<\(tag)>").last?.split(separator: "</\(tag)>").first)
                let digest = Base64URL.encode(Digest.sha256(Array(content.utf8)))
                #expect(allowed[index].replacing("+", with: "-").replacing("/", with: "_") == digest)
            }
        }
    }

    @Test("Every operation is on the page, and every link leads somewhere") func operationsAndLinks() async throws {
        try await RunningService.run { running in
            let html = String(decoding: try await running.client.with(key: nil).get("/docs").bytes, as: UTF8.self)
            let ids = html.pieces(after: " id=\"", upTo: "\"")
            #expect(Set(ids).count == ids.count)
            for operation in OpenAPIDocument.operations { #expect(ids.contains(operation.id)) }
            #expect(html.pieces(after: "<pre>", upTo: " ").filter { $0 == "curl" }.count == OpenAPIDocument.operations.count)
            for code in ProblemCode.allCases { #expect(ids.contains("problem-\(code.rawValue)")) }
            for link in html.pieces(after: "href=\"", upTo: "\"") {
                #expect(
                    ["/openapi.json", "/console"].contains(link) || link.hasPrefix("#") && ids.contains(String(link.dropFirst())), "\(link)"
                )
            }
        }
    }
}

extension String {
    /// What stands between each occurrence of one text and the next of a character.
    fileprivate func pieces(after start: String, upTo end: Character) -> [String] {
        split(separator: start, omittingEmptySubsequences: false).dropFirst().map { piece in String(piece.prefix { $0 != end }) }
    }
}
