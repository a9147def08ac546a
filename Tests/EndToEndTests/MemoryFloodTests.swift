import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import PushAPI
import TestSupport
import Testing

/// Promise 12 (docs/promises.md), for clients with a key that attack one process.
@Suite("A flood of the largest requests takes no more memory than the limits allow", .timeLimit(.minutes(5)))
struct MemoryFloodTests {
    private static let connections = 32
    private static let flood = 256
    private static let bodyBytes = 1 << 20
    /// The most memory for a body while it is received: a buffer that was just doubled, the one before, and the copy.
    private static let bodyShare = 4 * bodyBytes
    /// The memory for the largest parsed head and the connection itself.
    private static let connectionShare = 256 << 10
    /// Memory that the allocator keeps, and growth that does not depend on the flood.
    private static let slack = 64 << 20

    @Test("Eight times the allowed connections, each with the largest head and body, stay within the memory limits")
    func largestRequests() async throws {
        try await withPlatform { platform in
            // Long timeouts, so that a busy machine cuts nothing short, and room for every body. The test covers the limits of size and
            // number.
            let service = try await platform.startTokenService([
                "HTTP_MAX_CONNECTIONS": "\(Self.connections)", "HTTP_BODY_TIMEOUT_SECONDS": "3600", "HTTP_IDLE_TIMEOUT_SECONDS": "3600",
                "HTTP_MAX_BODY_MIB": "1024",
            ])
            let key = try await Client.with(platform, service) { client in
                // One request of each kind first, so that one-time costs do not count for the flood.
                _ = try await client.registerDevices(1, user: "ada")
                return try #require(client.service.key)
            }
            let before = try Self.memory("VmRSS:", of: service.process)
            let gate = Gate()
            let statuses = try await Self.send(to: service.url, key: key, gate) {
                _ = try await eventually("the bodies of a full house are held") {
                    try Self.memory("VmRSS:", of: service.process) - before >= Self.connections * Self.bodyBytes * 3 / 4 ? true : nil
                }
            }
            // The bodies are not JSON, so a 400 proves that the service read the whole body.
            #expect(statuses == [400: Self.flood])
            let bound = before + Self.connections * (Self.bodyShare + Self.connectionShare) + Self.slack
            let peak = try Self.memory("VmHWM:", of: service.process)
            print("MemoryFloodTests: \(before >> 20) MiB before, \(peak >> 20) MiB at most, \(bound >> 20) MiB allowed")
            #expect(peak <= bound)
            #expect(service.process.isRunning)
        }
    }

    /// - Parameter held: Runs while every request lacks its last byte.
    /// - Returns: How many answers had each status.
    private static func send(to url: String, key: String, _ gate: Gate, held: () async throws -> Void) async throws -> [Int: Int] {
        var configuration = HTTPClient.Configuration()
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = flood
        configuration.timeout = .init(connect: .minutes(5), read: .minutes(5))
        let client = HTTPClient(configuration: configuration)
        let result: Result<[Int: Int], any Error>
        do {
            result = .success(
                try await withThrowingTaskGroup(of: Int.self) { group in
                    for _ in 0..<flood {
                        group.addTask { try await post(url, key, gate, client) }
                    }
                    do { try await held() } catch {
                        group.cancelAll()
                        throw error
                    }
                    gate.open()
                    return try await group.reduce(into: [:]) { counts, status in counts[status, default: 0] += 1 }
                })
        } catch {
            result = .failure(error)
        }
        try await client.shutdown()
        return try result.get()
    }

    private static func post(_ url: String, _ key: String, _ gate: Gate, _ client: HTTPClient) async throws -> Int {
        var request = HTTPClientRequest(url: "\(url)/v1/apps/\(Client.app)/notifications")
        request.method = .POST
        request.headers = ["authorization": "Bearer \(key)", "content-type": "application/json", "connection": "close"]
        for number in 0..<2 { request.headers.add(name: "x-\(number)", value: String(repeating: "x", count: 7000)) }
        request.body = .stream(HeldBody(gate: gate, bytes: bodyBytes), length: .known(Int64(bodyBytes)))
        let response = try await client.execute(request, timeout: .minutes(5))
        for try await _ in response.body {}
        return Int(response.status.code)
    }

    private static func memory(_ name: String, of process: PlatformProcess) throws -> Int {
        let status = try String(contentsOfFile: "/proc/\(process.id)/status", encoding: .utf8)
        let line = try #require(status.split(separator: "\n").first { $0.hasPrefix(name) })
        return try #require(Int(line.filter(\.isNumber))) << 10
    }
}

/// Sends a body without its last byte, and the last byte when the gate opens.
private struct HeldBody: AsyncSequence, Sendable {
    typealias Element = ByteBuffer

    let gate: Gate
    let bytes: Int

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(gate: gate, left: bytes) }

    struct AsyncIterator: AsyncIteratorProtocol {
        private static let piece = ByteBuffer(repeating: UInt8(ascii: "x"), count: 16 << 10)

        let gate: Gate
        var left: Int

        mutating func next() async throws -> ByteBuffer? {
            guard left > 0 else { return nil }
            if left == 1 { try await gate.wait() }
            let count = left == 1 ? 1 : Swift.min(Self.piece.readableBytes, left - 1)
            left -= count
            return Self.piece.getSlice(at: 0, length: count)
        }
    }
}
