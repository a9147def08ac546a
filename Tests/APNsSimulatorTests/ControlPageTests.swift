import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import Testing

@testable import APNsSimulator

@Suite("The control port's page", .timeLimit(.minutes(5)))
struct ControlPageTests {
    @Test("The page loads files of this server only, and the browser refuses any others")
    func page() async throws {
        try await withControl { control in
            var paths = ["/"], served: Set<String> = []
            while let path = paths.popLast() {
                guard served.insert(path).inserted else { continue }
                let answer = try await HTTPClient.shared.execute(
                    HTTPClientRequest(url: "http://127.0.0.1:\(control.port)\(path)"), timeout: .seconds(30))
                let policy = answer.headers.first(name: "content-security-policy") ?? ""
                #expect(answer.status.code == 200, "\(path)")
                #expect(policy.hasPrefix("default-src 'none';") && !policy.contains("unsafe"), "\(path): \(policy)")
                let text = String(decoding: Array(try await answer.body.collect(upTo: 1 << 20).readableBytesView), as: UTF8.self)
                #expect(!text.isEmpty, "\(path)")
                paths += text.matches(of: /(?:src|href)="(page\/[^"]+)"/).map { "/" + $0.output.1 }
                paths += text.matches(of: /from "\.\/([^"]+)"/).map { "/page/" + $0.output.1 }
                // The policy forbids inline handlers and styles, and the page never reads a payload as HTML.
                #expect(text.firstMatch(of: /\son[a-z]+=|\sstyle=|innerHTML|insertAdjacentHTML|document\.write/) == nil, "\(path)")
                #expect(text.matches(of: /https?:\/\/[^"]+/).allSatisfy { $0.output == "http://www.w3.org/2000/svg" }, "\(path)")
            }
            #expect(served == Set(ControlPage.files.map(\.path)))
        }
    }
}
