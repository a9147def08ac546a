import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import PushAPI
import TestSupport
import Testing

/// The purpose of `HTTP_MAX_CONCURRENT_UPLOADS`.
@Suite("Long lists take no more memory than their limit allows", .timeLimit(.minutes(5)))
struct UploadMemoryTests {
    private static let uploads = 4
    /// The memory of one upload with the longest names: its bytes, the list, and the bytes on their way to the database.
    private static let share = 192 << 20

    @Test("The largest allowed number of uploads, each with a hundred thousand of the longest names, stays within the limit")
    func fullHouse() async throws {
        try await withPlatform { platform in
            // One key has half of them.
            let service = try await platform.startTokenService(["HTTP_MAX_CONCURRENT_UPLOADS": "\(2 * Self.uploads)"])
            let key = try await Client.with(platform, service) { client in
                _ = try await client.registerDevices(1, user: "ada")
                return try #require(client.service.key)
            }
            let before = try Self.memory("VmRSS:", of: service.process)
            for (name, length) in [("short names", 8), ("the longest names", 256)] {
                let body = Self.body(nameLength: length)
                for round in 1...3 {
                    let seconds = try await Self.post(service.url, key, body)
                    let (rss, peak) = (try Self.memory("VmRSS:", of: service.process), try Self.memory("VmHWM:", of: service.process))
                    print(
                        "UploadMemoryTests: \(name), \(body.readableBytes) bytes, round \(round): 202 after \(seconds); "
                            + "\(before >> 20) MiB before, \(rss >> 20) MiB after, \(peak >> 20) MiB at most")
                }
            }
            let (body, url) = (Self.body(nameLength: 256), service.url)
            try await withThrowingTaskGroup(of: Duration.self) { group in
                for _ in 1...Self.uploads { group.addTask { try await Self.post(url, key, body) } }
                for try await seconds in group { print("UploadMemoryTests: one of \(Self.uploads) at once: 202 after \(seconds)") }
            }
            let peak = try Self.memory("VmHWM:", of: service.process)
            let bound = before + Self.uploads * Self.share
            print("UploadMemoryTests: \(before >> 20) MiB before, \(peak >> 20) MiB at most, \(bound >> 20) MiB allowed")
            #expect(peak <= bound)
        }
    }

    private static func body(nameLength: Int) -> ByteBuffer {
        let names = (100_000..<200_000).map { "\"" + String(repeating: "u", count: nameLength - 6) + "\($0)\"" }
        return ByteBuffer(string: #"{"to":{"users":[\#(names.joined(separator: ","))]},"content":{"alert":"hello"}}"#)
    }

    /// Posts again as any client does while the answer says that the database cannot serve now: a busy machine may need more than the 30 s
    /// that a long list's transaction has.
    /// - Returns: The time from the first POST to the 202.
    private static func post(_ url: String, _ key: String, _ body: ByteBuffer) async throws -> Duration {
        var request = HTTPClientRequest(url: "\(url)/v1/apps/\(Client.app)/notifications/upload")
        request.method = .POST
        request.headers = ["authorization": "Bearer \(key)", "content-type": "application/json"]
        request.body = .bytes(body)
        let began = ContinuousClock.now
        while true {
            let response = try await HTTPClient.shared.execute(request, timeout: .minutes(5))
            let answer = try await response.body.collect(upTo: 1 << 20)
            let text = String(buffer: answer)
            if response.status == .serviceUnavailable, text.contains(#""code":"database_unavailable""#) { continue }
            #expect(response.status == .accepted, "\(text)")
            return ContinuousClock.now - began
        }
    }

    private static func memory(_ name: String, of process: PlatformProcess) throws -> Int {
        let status = try String(contentsOfFile: "/proc/\(process.id)/status", encoding: .utf8)
        let line = try #require(status.split(separator: "\n").first { $0.hasPrefix(name) })
        return try #require(Int(line.filter(\.isNumber))) << 10
    }
}
