import CNGHTTP2
import Testing

@testable import HTTP2

@Suite("What nghttp2 may take of memory")
struct SessionMemoryTests {
    @Test func isBoundedAndWhatIsFreedMayBeTakenAgain() throws {
        let memory = SessionMemory(limit: 10_000)
        let functions = memory.functions
        func take(_ size: Int) -> UnsafeMutableRawPointer? { functions.malloc(size, functions.mem_user_data) }
        for _ in 0..<100 {
            let first = try #require(take(6000))
            #expect(take(6000) == nil)
            let larger = try #require(functions.realloc(first, 9000, functions.mem_user_data))
            #expect(functions.calloc(100, 100, functions.mem_user_data) == nil)
            functions.free(larger, functions.mem_user_data)
        }
        functions.free(nil, functions.mem_user_data)
        let zeros = try #require(functions.calloc(10, 10, functions.mem_user_data))
        #expect((0..<100).allSatisfy { zeros.load(fromByteOffset: $0, as: UInt8.self) == 0 })
        functions.free(zeros, functions.mem_user_data)
        #expect(functions.calloc(.max, 2, functions.mem_user_data) == nil)
        #expect(functions.malloc(-1, functions.mem_user_data) == nil)
    }

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
}
