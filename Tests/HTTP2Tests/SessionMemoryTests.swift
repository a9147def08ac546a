import Testing

@testable import HTTP2

@Suite("What nghttp2 may take of memory")
struct SessionMemoryTests {
    @Test func aSessionWithoutMemoryRefusesRequestsAndBlamesNobodyElse() throws {
        let client = try HTTP2ClientSession(initialPeerStreamLimit: 4096, memoryLimit: 400_000)
        let error = #expect(throws: HTTP2Error.self) {
            for _ in 0..<4096 { _ = try client.submit(request("/"), body: [1]) }
        }
        guard case .library? = error?.code else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(error?.isPeersFault == false)
    }

    /// Far more in all than the limit, a little at a time.
    @Test func whatIsFreedMayBeTakenAgain() throws {
        let client = try HTTP2ClientSession(initialPeerStreamLimit: 4096, memoryLimit: 400_000)
        var output: [UInt8] = []
        for _ in 0..<1_000 {
            let streams = try (0..<10).map { _ in try client.submit(request("/"), body: [1]) }
            while try client.gatherOutput(into: &output) { output.removeAll(keepingCapacity: true) }
            for stream in streams { client.reset(stream, .cancel) }
            while try client.gatherOutput(into: &output) { output.removeAll(keepingCapacity: true) }
            client.forEachEvent { _ in }
        }
        #expect(client.openStreams == 0)
    }
}
