import AsyncHTTPClient
import NIOCore
import NIOHTTP1
package import StrictJSON

/// JSON over HTTP, to the token service and to the simulator's control port.
package struct APIClient {
    /// Answers show payloads some levels deeper than requests, which are limited to ``JSONScanner/defaultMaximumDepth``, have them.
    private static let maximumDepth = 2 * JSONScanner.defaultMaximumDepth

    package let baseURL: String
    package let key: String?
    private let http: HTTPClient

    /// Lends a client; its connections are closed when `body` returns.
    package static func with<Result>(baseURL: String, key: String?, _ body: (APIClient) async throws -> Result) async throws -> Result {
        let http = HTTPClient(eventLoopGroupProvider: .singleton)
        let result: Swift.Result<Result, any Error>
        do { result = .success(try await body(APIClient(baseURL: baseURL, key: key, http: http))) } catch { result = .failure(error) }
        try await http.shutdown()
        return try result.get()
    }

    /// The same connections, another server, without a key.
    package func other(baseURL: String) -> APIClient { APIClient(baseURL: baseURL, key: nil, http: http) }

    /// The same server, another key.
    package func with(key: String) -> APIClient { APIClient(baseURL: baseURL, key: key, http: http) }

    /// Whether the server answers a GET with a status of 2xx, with any body.
    package func answers(_ path: String) async -> Bool {
        let response = try? await http.execute(HTTPClientRequest(url: baseURL + path), timeout: .seconds(2))
        return response.map { (200..<300).contains($0.status.code) } ?? false
    }

    package func get(_ path: String) async throws -> JSONValue { try await call(.GET, path) }
    package func delete(_ path: String) async throws { _ = try await call(.DELETE, path) }
    /// A DELETE with an answer in its body.
    func answer(toDeleting path: String) async throws -> JSONValue { try await call(.DELETE, path) }

    /// - Parameter idempotencyKey: the same key again has no new effect and gives the same answer.
    @discardableResult
    package func post(_ path: String, idempotencyKey: String? = nil, _ body: (inout JSONWriter) -> Void) async throws -> JSONValue {
        try await call(.POST, path, idempotencyKey: idempotencyKey, Self.object(body))
    }

    /// Sends ready JSON, and gives the answer with its bytes: parts of it can be kept as they are.
    func post(_ path: String, json: [UInt8], idempotencyKey: String? = nil) async throws -> (value: JSONValue, bytes: [UInt8]) {
        try await exchange(.POST, path, idempotencyKey: idempotencyKey, json)
    }

    /// Sends ready JSON, for a caller that repeats it.
    /// - Throws: ``LostConnection`` if the service did nothing and asks to come back; ``CommandFailure`` for any other refusal, and if no
    ///   answer came.
    func postAgain(_ path: String, json: [UInt8]) async throws -> JSONValue {
        try await exchange(.POST, path, idempotencyKey: nil, json, mayBeRepeated: true).value
    }

    @discardableResult
    package func put(_ path: String, _ body: (inout JSONWriter) -> Void) async throws -> JSONValue {
        try await call(.PUT, path, Self.object(body))
    }

    /// A merge patch (RFC 7396): a field that it does not name stays.
    @discardableResult
    package func patch(_ path: String, _ body: (inout JSONWriter) -> Void) async throws -> JSONValue {
        try await call(.PATCH, path, Self.object(body))
    }

    private static func object(_ body: (inout JSONWriter) -> Void) -> [UInt8] {
        var writer = JSONWriter()
        writer.object(body)
        return writer.bytes
    }

    /// The answer's JSON; `null` for an empty answer.
    /// - Throws: ``CommandFailure`` with the server's own explanation when it refuses.
    private func call(
        _ method: HTTPMethod, _ path: String, idempotencyKey: String? = nil, _ body: [UInt8]? = nil
    ) async throws -> JSONValue {
        try await exchange(method, path, idempotencyKey: idempotencyKey, body).value
    }

    private func exchange(
        _ method: HTTPMethod, _ path: String, idempotencyKey: String?, _ body: [UInt8]?, mayBeRepeated: Bool = false
    ) async throws -> (value: JSONValue, bytes: [UInt8]) {
        var request = request(method, path, type: body == nil ? nil : "application/json")
        if let idempotencyKey { request.headers.add(name: "idempotency-key", value: idempotencyKey) }
        request.body = body.map { .bytes($0) }
        let response = try await accepted(request, path, timeout: .seconds(70), mayBeRepeated: mayBeRepeated)
        let bytes: [UInt8]
        do { bytes = Array((try await response.body.collect(upTo: 16 << 20)).readableBytesView) } catch {
            throw CommandFailure("\(method.rawValue) \(baseURL)\(path): no answer (\(error))")
        }
        guard !bytes.isEmpty else { return (try JSONValue.parse(Array("null".utf8)), bytes) }
        do { return (try JSONValue.parse(bytes, maximumDepth: Self.maximumDepth, maximumBytes: 16 << 20), bytes) } catch {
            throw CommandFailure("\(method.rawValue) \(path) was answered with something that is not JSON")
        }
    }

    /// A POST's answer, whose body is still to come.
    /// - Throws: ``CommandFailure`` when it is a refusal.
    func response(to path: String, _ body: (inout JSONWriter) -> Void) async throws -> HTTPClientResponse {
        var request = request(.POST, path, type: "application/json")
        request.body = .bytes(Self.object(body))
        return try await accepted(request, path, timeout: .hours(24))
    }

    /// A request whose answer is a stream of lines, which may begin while `body` is still being sent.
    /// - Parameters:
    ///   - body: Taken as fast as the server reads.
    ///   - onLine: Gets each whole line; the server waits for it.
    /// - Throws: ``CommandFailure`` when the server refuses for good; ``LostConnection`` when a repeated request may succeed; the error of
    ///   `onLine`.
    func lines(
        _ method: HTTPMethod, _ path: String, body: (some AsyncSequence<ByteBuffer, any Error> & Sendable)?,
        _ onLine: (ArraySlice<UInt8>) async throws -> Void
    ) async throws {
        var request = request(method, path, type: body == nil ? nil : "application/x-ndjson")
        request.body = body.map { .stream($0, length: .unknown) }
        let response: HTTPClientResponse
        do { response = try await http.execute(request, timeout: .seconds(60)) } catch let failure as CommandFailure { throw failure } catch
        {
            throw LostConnection("no answer (\(error))")
        }
        if let refusal = await Refusal(response, to: "\(method.rawValue) \(path)") {
            throw refusal.isLasting ? CommandFailure(refusal.words) : LostConnection(refusal.words)
        }
        var rest: [UInt8] = []
        var buffers = response.body.makeAsyncIterator()
        while true {
            let buffer: ByteBuffer?
            do { buffer = try await buffers.next() } catch { throw LostConnection("the connection broke (\(error))") }
            guard let buffer else { break }
            rest.append(contentsOf: buffer.readableBytesView)
            var start = 0
            while let end = rest[start...].firstIndex(of: UInt8(ascii: "\n")) {
                try await onLine(rest[start..<end])
                start = end + 1
            }
            rest.removeFirst(start)
        }
        guard rest.isEmpty else { throw LostConnection("the answer broke off inside a line") }
    }

    /// A request with the key and, if it has a body, the body's type.
    private func request(_ method: HTTPMethod, _ path: String, type: String?) -> HTTPClientRequest {
        var request = HTTPClientRequest(url: baseURL + path)
        request.method = method
        if let key { request.headers.add(name: "authorization", value: "Bearer \(key)") }
        if let type { request.headers.add(name: "content-type", value: type) }
        return request
    }

    /// The head of an answer that is no refusal.
    private func accepted(
        _ request: HTTPClientRequest, _ path: String, timeout: TimeAmount, mayBeRepeated: Bool = false
    ) async throws -> HTTPClientResponse {
        let response: HTTPClientResponse
        do { response = try await http.execute(request, timeout: timeout) } catch {
            throw CommandFailure("\(request.method.rawValue) \(baseURL)\(path): no answer (\(error))")
        }
        if let refusal = await Refusal(response, to: "\(request.method.rawValue) \(path)") {
            throw mayBeRepeated && refusal.isForNow ? LostConnection(refusal.words) : CommandFailure(refusal.words)
        }
        return response
    }
}
