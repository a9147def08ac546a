import HTTPTypes
import PushModel
import Testing
import TokenService

@Suite("Text that PostgreSQL cannot hold is refused where it comes in", .serialized, .timeLimit(.minutes(5)))
struct HostileTextTests {
    /// Each part of each path, and each parameter of each query, with U+0000 in it.
    private static func paths(_ operation: Operation) -> [String] {
        let route = operation.route.path
        let good = [("{app}", "shop"), ("{slug}", "shop"), ("{user}", "ada"), ("{id}", installation(1).description)]
        func filled(_ path: String) -> String { good.reduce(path) { $0.replacing($1.0, with: $1.1) } }
        let parts = good.map(\.0).filter { route.contains($0) }.map { filled(route.replacing($0, with: "a%00b")) }
        let queries = operation.parameters.filter { $0.place == .query }.map { "\(filled(route))?\($0.name)=a%00b" }
        return parts + queries
    }

    @Test("U+0000 in a path or a query is a refusal, wherever it stands") func nul() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            var tried = 0
            for operation in OpenAPIDocument.operations where !operation.route.scopes.isEmpty {
                for path in Self.paths(operation) {
                    let body = [.post, .put, .patch].contains(operation.route.method) ? "{}" : nil
                    let answer = try await running.client.call(operation.route.method.rawValue, path, body)
                    #expect((400..<500).contains(answer.status), "\(operation.route.method.rawValue) \(path): \(answer.status)")
                    tried += 1
                }
            }
            #expect(tried > 60)
        }
    }
}
