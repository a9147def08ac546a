import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import StrictJSON
import TestSupport

/// A request body that a test sends piece by piece.
final class LineFeed: Sendable {
    let buffers: AsyncStream<ByteBuffer>
    private let continuation: AsyncStream<ByteBuffer>.Continuation

    init() { (buffers, continuation) = AsyncStream.makeStream() }

    func send(_ lines: [String]) { sendText(lines.joined(separator: "\n") + "\n") }
    func sendText(_ text: String) { continuation.yield(ByteBuffer(string: text)) }
    func finish() { continuation.finish() }
}

extension APITestClient {
    struct StreamEnded: Error {}

    /// Imports what the feed sends; `body` sees each line of the answer as it comes, and an error when the stream broke.
    func importing(
        _ feed: LineFeed, app: String = "shop", _ body: @escaping @Sendable (LineReader) async throws -> Void
    ) async throws {
        var request = HTTPClientRequest(url: "http://127.0.0.1:\(port)/v1/apps/\(app)/import")
        request.method = .POST
        if let key { request.headers.add(name: "authorization", value: "Bearer \(key)") }
        request.body = .stream(feed.buffers, length: .unknown)
        let response = try await HTTPClient.shared.execute(request, timeout: .minutes(2))
        let reader = LineReader(response.body)
        try await body(reader)
    }

    actor LineReader {
        private var buffers: HTTPClientResponse.Body.AsyncIterator
        private var text = ""

        init(_ body: HTTPClientResponse.Body) { buffers = body.makeAsyncIterator() }

        func next() async throws -> JSONValue {
            while !text.contains("\n") {
                var iterator = buffers
                guard let buffer = try await iterator.next(isolation: self) else { throw StreamEnded() }
                buffers = iterator
                text += String(buffer: buffer)
            }
            let line = text.prefix { $0 != "\n" }
            text.removeFirst(line.count + 1)
            return try JSONValue.parse(Array(line.utf8))
        }

        func first(where condition: @Sendable (JSONValue) -> Bool) async throws -> JSONValue {
            while true {
                let value = try await next()
                if condition(value) { return value }
            }
        }
    }
}
