import Testing

@testable import HTTP2

@Suite("HTTP/2: how much memory nghttp2 may use")
struct SessionMemoryTests {
    @Test("A session without memory refuses requests and does not blame the peer") func exhausted() throws {
        let client = try HTTP2ClientSession(memoryLimit: 400_000)
        let error = #expect(throws: HTTP2Error.self) {
            for _ in 0..<4096 { _ = try client.submit(request("/"), body: [1]) }
        }
        guard case .library? = error?.code else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(error?.isPeersFault == false)
    }

    /// Uses far more than the limit in total, a little at a time.
    @Test("A session may use freed memory again") func freedMemory() throws {
        let client = try HTTP2ClientSession(memoryLimit: 400_000)
        var output: [UInt8] = []
        for _ in 0..<1_000 {
            let streams = try (0..<10).map { _ in try client.submit(request("/"), body: [1]) }
            while try client.gatherOutput(into: &output) { output.removeAll(keepingCapacity: true) }
            for stream in streams { client.reset(stream, .cancel) }
            while try client.gatherOutput(into: &output) { output.removeAll(keepingCapacity: true) }
            client.forEachEvent { _ in }
        }
        #expect(client.openStreams.isEmpty)
    }
}
