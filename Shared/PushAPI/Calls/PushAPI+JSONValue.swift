import AsyncHTTPClient
package import StrictJSON

/// Calls for the platform's own tools and tests: one attempt, and the answer as a tree.
extension PushAPI {
    /// Lends a client; its connections are closed when `body` returns.
    package static func with<Result>(baseURL: String, key: String?, _ body: (PushAPI) async throws -> Result) async throws -> Result {
        try await HTTPClient.withHTTPClient { http in
            try await body(PushAPI(baseURL: baseURL, key: key, http: http, deadline: .seconds(70), attemptTimeout: .seconds(70)))
        }
    }

    /// Makes a client with the same connections for another server or key.
    package func other(baseURL: String? = nil, key: String?) -> PushAPI {
        var other = PushAPI(
            baseURL: baseURL ?? self.baseURL, key: key, http: http, deadline: deadline, attemptTimeout: attemptTimeout)
        other.clock = clock
        return other
    }

    /// Whether the server answers a GET with a status of 2xx in time.
    package func answers(_ path: String, within limit: Duration = .seconds(2)) async -> Bool {
        let answer = try? await once(Call(.get, path), within: limit)
        return answer.map { (200..<300).contains($0.status) } ?? false
    }

    package func get(_ path: String, query: [(String, String?)] = []) async throws -> JSONValue {
        try await tree(Call(.get, path, query: query))
    }

    @discardableResult
    package func delete(_ path: String) async throws -> JSONValue { try await tree(Call(.delete, path)) }

    @discardableResult
    package func post(_ path: String, _ body: (inout JSONWriter) -> Void) async throws -> JSONValue {
        try await tree(Call(.post, path, json: JSONWriter.object(body)))
    }

    @discardableResult
    package func put(_ path: String, _ body: (inout JSONWriter) -> Void) async throws -> JSONValue {
        try await tree(Call(.put, path, json: JSONWriter.object(body)))
    }

    /// A merge patch (RFC 7396): a field that it does not name stays.
    @discardableResult
    package func patch(_ path: String, _ body: (inout JSONWriter) -> Void) async throws -> JSONValue {
        try await tree(Call(.patch, path, json: JSONWriter.object(body)))
    }

    /// - Throws: ``PushAPIError``
    package func tree(_ call: Call) async throws -> JSONValue { try await once(call).accepted().json() }
}

extension PushAPI.Answer {
    /// Answers show payloads some levels deeper than requests, which are limited to ``JSONScanner/defaultMaximumDepth``, have them.
    private static let maximumDepth = 2 * JSONScanner.defaultMaximumDepth

    /// `null` for an empty answer.
    package func json() throws(PushAPIError) -> JSONValue {
        let text = body.isEmpty ? Array("null".utf8) : body
        do { return try JSONValue.parse(text, maximumDepth: Self.maximumDepth, maximumBytes: text.count) } catch {
            throw .unreadable("\(call) was answered with something that is not JSON")
        }
    }
}

extension JSONWriter {
    package static func object(_ body: (inout JSONWriter) -> Void) -> [UInt8] {
        var writer = JSONWriter()
        writer.object(body)
        return writer.bytes
    }
}
