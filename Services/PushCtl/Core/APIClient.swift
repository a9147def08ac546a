import AsyncHTTPClient
import NIOCore
import NIOHTTP1
package import StrictJSON

/// JSON over HTTP, to the token service and to the simulator's control port.
package struct APIClient {
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

    /// Whether a GET is answered with a status of 2xx, whatever its body.
    package func answers(_ path: String) async -> Bool {
        let response = try? await http.execute(HTTPClientRequest(url: baseURL + path), timeout: .seconds(2))
        return response.map { (200..<300).contains($0.status.code) } ?? false
    }

    package func get(_ path: String) async throws -> JSONValue { try await call(.GET, path) }
    package func delete(_ path: String) async throws { _ = try await call(.DELETE, path) }

    /// - Parameter idempotencyKey: the same key again does nothing new and gives the same answer.
    @discardableResult
    package func post(_ path: String, idempotencyKey: String? = nil, _ body: (inout JSONWriter) -> Void) async throws -> JSONValue {
        try await call(.POST, path, idempotencyKey: idempotencyKey, Self.object(body))
    }

    @discardableResult
    package func put(_ path: String, _ body: (inout JSONWriter) -> Void) async throws -> JSONValue {
        try await call(.PUT, path, Self.object(body))
    }

    /// A merge patch (RFC 7396): what it does not name stays.
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
        var request = HTTPClientRequest(url: baseURL + path)
        request.method = method
        if let key { request.headers.add(name: "authorization", value: "Bearer \(key)") }
        if let idempotencyKey { request.headers.add(name: "idempotency-key", value: idempotencyKey) }
        if let body {
            request.headers.add(name: "content-type", value: "application/json")
            request.body = .bytes(body)
        }
        let status: UInt
        let bytes: [UInt8]
        do {
            let response = try await http.execute(request, timeout: .seconds(70))
            status = response.status.code
            bytes = Array((try await response.body.collect(upTo: 16 << 20)).readableBytesView)
        } catch {
            throw CommandFailure("\(method.rawValue) \(baseURL)\(path): no answer (\(error))")
        }
        let json = bytes.isEmpty ? nil : try? JSONValue.parse(bytes, maximumBytes: 16 << 20)
        guard (200..<300).contains(status) else {
            throw CommandFailure("\(method.rawValue) \(path) was refused: \(Self.explanation(status, json))")
        }
        if let json { return json }
        guard bytes.isEmpty else { throw CommandFailure("\(method.rawValue) \(path) was answered with something that is not JSON") }
        return try JSONValue.parse(Array("null".utf8))
    }

    /// A POST's answer, whose body is still to come.
    /// - Throws: ``CommandFailure`` when it is a refusal.
    func response(to path: String, _ body: (inout JSONWriter) -> Void) async throws -> HTTPClientResponse {
        var request = HTTPClientRequest(url: baseURL + path)
        request.method = .POST
        if let key { request.headers.add(name: "authorization", value: "Bearer \(key)") }
        request.headers.add(name: "content-type", value: "application/json")
        request.body = .bytes(Self.object(body))
        let response: HTTPClientResponse
        do { response = try await http.execute(request, timeout: .hours(24)) } catch {
            throw CommandFailure("POST \(baseURL)\(path): no answer (\(error))")
        }
        guard !(200..<300).contains(response.status.code) else { return response }
        var bytes: [UInt8] = []
        do { bytes = Array((try await response.body.collect(upTo: 1 << 20)).readableBytesView) } catch {
            throw CommandFailure("POST \(path) was refused: status \(response.status.code)")
        }
        let problem = try? JSONValue.parse(bytes, maximumBytes: 1 << 20)
        throw CommandFailure("POST \(path) was refused: \(Self.explanation(response.status.code, problem))")
    }

    /// A request whose answer is a stream of lines, which may begin while `body` is still being sent.
    /// - Parameters:
    ///   - body: Taken as fast as the server reads.
    ///   - onLine: Gets each whole line; the server waits for it.
    /// - Throws: ``CommandFailure`` when the server refuses for good; ``LostConnection`` when the same may go better later; what `onLine`
    ///   throws.
    func lines(
        _ method: HTTPMethod, _ path: String, body: (some AsyncSequence<ByteBuffer, any Error> & Sendable)?,
        _ onLine: (ArraySlice<UInt8>) async throws -> Void
    ) async throws {
        var request = HTTPClientRequest(url: baseURL + path)
        request.method = method
        if let key { request.headers.add(name: "authorization", value: "Bearer \(key)") }
        if let body {
            request.headers.add(name: "content-type", value: "application/x-ndjson")
            request.body = .stream(body, length: .unknown)
        }
        let response: HTTPClientResponse
        do { response = try await http.execute(request, timeout: .seconds(60)) } catch { throw LostConnection("no answer (\(error))") }
        guard response.status.code == 200 else { throw try await Self.refusal(response, "\(method.rawValue) \(path)") }
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

    private static func refusal(_ response: HTTPClientResponse, _ call: String) async throws -> any Error {
        let bytes: [UInt8]
        do {
            bytes = Array((try await response.body.collect(upTo: 1 << 20)).readableBytesView)
        } catch {
            return LostConnection("the connection broke (\(error))")
        }
        let problem: JSONValue?
        do { problem = try JSONValue.parse(bytes) } catch { problem = nil }
        let words = "\(call) was refused: \(explanation(response.status.code, problem))"
        return response.status.code == 429 || response.status.code >= 500 ? LostConnection(words) : CommandFailure(words)
    }

    /// One line out of a problem document (RFC 9457).
    private static func explanation(_ status: UInt, _ problem: JSONValue?) -> String {
        guard let problem else { return "status \(status)" }
        let title = problem["detail"]?.stringValue ?? problem["title"]?.stringValue ?? "no explanation"
        let fields = (problem["errors"]?.arrayValue ?? []).map { error in
            "\(error["pointer"]?.stringValue ?? "?"): \(error["detail"]?.stringValue ?? "?")"
        }
        return (["\(status) \(problem["code"]?.stringValue ?? "")", title] + fields).joined(separator: "; ")
    }
}

/// What may go better when it is tried again.
struct LostConnection: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
