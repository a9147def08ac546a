import AsyncHTTPClient
package import NIOCore
import NIOHTTP1

/// Bodies of any size, one attempt each. A caller that can go on in the middle repeats them.
extension PushAPI {
    /// A call whose answer is a stream of lines, which may begin while `body` is still being sent.
    /// - Parameters:
    ///   - body: Lines, taken as fast as the service reads.
    ///   - onLine: Gets each whole line; the service waits for it.
    /// - Throws: ``PushAPIError``; the error of `onLine`.
    package func lines(
        _ call: Call, sending body: (some AsyncSequence<ByteBuffer, any Error> & Sendable)?,
        _ onLine: (ArraySlice<UInt8>) async throws -> Void
    ) async throws {
        var request = try request(call, type: body == nil ? nil : "application/x-ndjson")
        request.body = body.map { .stream($0, length: .unknown) }
        var rest: [UInt8] = []
        try await pieces(request, call, headWithin: .seconds(60)) { piece in
            rest.append(contentsOf: piece.readableBytesView)
            var start = 0
            while let end = rest[start...].firstIndex(of: UInt8(ascii: "\n")) {
                try await onLine(rest[start..<end])
                start = end + 1
            }
            rest.removeFirst(start)
        }
        guard rest.isEmpty else { throw PushAPIError.lostConnection("the answer broke off inside a line") }
    }

    /// Hands on the answer piece by piece.
    /// - Throws: ``PushAPIError``, also if the answer breaks off; the error of `sink`.
    package func download(_ call: Call, to sink: (ByteBuffer) throws -> Void) async throws {
        var request = try request(call, type: call.json == nil ? nil : "application/json")
        request.body = call.json.map { .bytes($0) }
        try await pieces(request, call, headWithin: .hours(24), sink)
    }

    private func pieces(
        _ request: HTTPClientRequest, _ call: Call, headWithin limit: TimeAmount, _ sink: (ByteBuffer) async throws -> Void
    ) async throws {
        let response: HTTPClientResponse
        do { response = try await http.execute(request, timeout: limit) } catch { throw try lost(call, "no answer", error) }
        guard (200..<300).contains(response.status.code) else {
            let body = try? await response.body.collect(upTo: 1 << 20)
            _ = try Answer(response, body: body.map { Array($0.readableBytesView) } ?? [], to: call).accepted()
            return
        }
        var buffers = response.body.makeAsyncIterator()
        while true {
            let buffer: ByteBuffer?
            do { buffer = try await buffers.next() } catch { throw try lost(call, "the answer broke off", error) }
            guard let buffer else { return }
            try await sink(buffer)
        }
    }
}
