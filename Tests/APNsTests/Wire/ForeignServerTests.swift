import Foundation
import PushModel
import StrictJSON
import Synchronization
import TestIdentity
import TestServers
import TestSupport
import Testing

@testable import APNs

/// The scripted server and the simulator use the same HTTP/2 wrapper as the client, so they cannot show a rule that the wrapper misreads.
/// These servers share no code with it: Python's h2, and nghttpd.
@Suite("Servers that share no code with the client", .timeLimit(.minutes(5)))
struct ForeignServerTests {
    init() throws { try TestServers.require() }

    // MARK: Python's h2

    @Test("h2 accepts every request once", arguments: ["accept", "one-stream", "no-stream", "small-window", "decorated"])
    func acceptedOnce(behaviour: String) async throws {
        try await with(behaviour) { server, bench in
            bench.submit(.make(40, tag: 1), .make(20, tag: 2, lane: .bulk, collapsesByID: true, expiration: 1_900_000_000))
            let finished = try await bench.next(2)
            #expect(finished[1]?.acceptedCount == 40 && finished[2]?.acceptedCount == 20)
            let seen = try server.requests()
            #expect(seen.count == 60 && Set(seen.map(\.path)).count == 60 && Set(seen.map(\.id)).count == 60)
            #expect(Set(seen.map(\.body)) == [25], "the body arrives whole, seven bytes at a time too")
        }
    }

    @Test("The client sends no request while the stream limit is zero") func zeroLimit() async throws {
        try await with("no-stream") { server, bench in
            bench.submit(.make(3))
            #expect(try await bench.next()[1]?.acceptedCount == 3)
            let kinds = try server.lines().map { $0["path"] != nil }
            #expect(kinds.first == false, "the client had read SETTINGS before it sent anything")
        }
    }

    /// - Parameter behaviour: GOAWAY with the fourth of ten streams as its last one, at once or after one with the highest number.
    @Test("The client sends the streams that a GOAWAY leaves out once more, and no others", arguments: ["goaway-low", "goaway-twice"])
    func leftOut(behaviour: String) async throws {
        try await with(behaviour) { server, bench in
            bench.submit(.make(1, tag: 1))
            _ = try await bench.next()
            bench.submit(.make(10, tag: 2))
            #expect(try await bench.next()[2]?.acceptedCount == 10)
            let byPath = Dictionary(grouping: try server.requests().dropFirst(), by: \.path).values.map { $0.map(\.connection).sorted() }
            #expect(byPath.count { $0 == [1] } == 4)
            #expect(byPath.count { $0 == [1, 2] } == 6)
        }
    }

    @Test("The client sends no refused stream again on the connection that refused it") func refusedStreams() async throws {
        try await with("refuse") { server, bench in
            bench.submit(.make(1, tag: 1))
            _ = try await bench.next()
            bench.submit(.make(10, tag: 2))
            let answers = try await bench.next()[2]?.answers.map(\.result)
            #expect(answers == Array(repeating: .notSent(.refused), count: 10), "there is no other connection")
            #expect(try server.requests().count == 11)
        }
    }

    @Test("A request that ends without an answer is unknown", arguments: [("reset", UnknownReason.streamReset), ("cut", .connectionLost)])
    func withoutAnswer(behaviour: String, reason: UnknownReason) async throws {
        try await with(behaviour) { _, bench in
            bench.submit(.make(1, tag: 1))
            _ = try await bench.next()
            bench.submit(.make(10, tag: 2))
            #expect(try await bench.next()[2]?.answers.map(\.result) == Array(repeating: .unknown(reason), count: 10))
        }
    }

    @Test("An answer before the end of the request counts") func earlyAnswer() async throws {
        try await with("early") { _, bench in
            bench.submit(.make(5))
            let answers = try await bench.next()[1]?.answers.map(\.result) ?? []
            let early = APNsAnswer.Result.response(status: 413, reason: "PayloadTooLarge", timestamp: nil, retryAfter: nil)
            #expect(answers == Array(repeating: early, count: 5))
        }
    }

    /// The client answers each PING and each SETTINGS. If a server asks for more answers than the client can send, it gives the connection
    /// up.
    @Test("A flood of control frames ends the connection at most") func controlFlood() async throws {
        try await with("flood") { _, bench in
            bench.submit(.make(1, tag: 1))
            _ = try await bench.next()
            bench.submit(.make(10, tag: 2))
            let answers = try await bench.next()[2]?.answers.map(\.result) ?? []
            #expect(answers.count == 10 && answers.allSatisfy { $0 == .accepted || $0 == .unknown(.connectionLost) })
            bench.submit(.make(10, tag: 3))
            #expect(try await bench.next()[3]?.acceptedCount == 10)
        }
    }

    // MARK: nghttpd

    @Test("nghttpd takes every request once", arguments: [1, 100])
    func takenOnce(streams: Int) async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "nghttpd-\(UUID().uuidString)")
        let batch = APNsBatch.make(200)
        try FileManager.default.createDirectory(at: folder.appending(path: "3/device"), withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        for request in batch.requests.dropLast() { try Data().write(to: folder.appending(path: "3/device/\(request.token.hex)")) }
        let identity = try TestIdentity.shared.get()
        let port = try FreePorts.choose(1)[0]
        let server = Process()
        server.executableURL = URL(filePath: "/usr/sbin/nghttpd")
        server.arguments = [
            "-a", "127.0.0.1", "-d", folder.path(), "-m", "\(streams)", "\(port)", identity.keyFile, identity.certificateFile,
        ]
        (server.standardOutput, server.standardError) = (FileHandle.nullDevice, FileHandle.nullDevice)
        try server.run()
        defer {
            // SIGTERM may be blocked in this process, and would be in that one.
            kill(server.processIdentifier, SIGKILL)
            server.waitUntilExit()
        }
        // nghttpd takes connections a moment after its start. Until then dialling fails, and the next attempt comes soon.
        let bench = try PoolBench(port: port)
        bench.submit(batch)
        let finished = try await bench.next()[1]
        #expect(finished?.acceptedCount == 199)
        #expect(finished?[199] == .response(status: 404, reason: nil, timestamp: nil, retryAfter: nil), "there is no file for the last one")
        await bench.pool.shutdown(deadline: .zero)
    }

    // MARK: The server's process

    struct Request {
        let connection: Int64
        let path: String
        let id: String
        let body: Int64
    }

    /// A server process that keeps its output.
    final class Server: Sendable {
        let port: Int
        private let process: Process
        private let output = Mutex("")
        private let isRead = DispatchSemaphore(value: 0)

        init(_ behaviour: String) throws {
            let identity = try TestIdentity.shared.get()
            let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            let python = try TestServers.python()
            process = Process()
            process.executableURL = URL(filePath: python)
            process.arguments = [
                folder.appending(path: "Peers/h2_server.py").path(), behaviour, identity.certificateFile, identity.keyFile,
            ]
            let output = Pipe()
            (process.standardInput, process.standardOutput) = (Pipe(), output)
            try process.run()
            var line = ""
            while !line.hasSuffix("\n"), let byte = try output.fileHandleForReading.read(upToCount: 1), !byte.isEmpty {
                line += String(decoding: byte, as: UTF8.self)
            }
            port = try #require(Int(line.dropLast()))
            let rest = output.fileHandleForReading
            Thread.detachNewThread { [self] in
                let text = String(decoding: rest.readDataToEndOfFile(), as: UTF8.self)
                self.output.withLock { $0 = text }
                isRead.signal()
            }
        }

        /// Ends the server and returns its whole output.
        func lines() throws -> [JSONValue] {
            stop()
            return try output.withLock { $0 }.split(separator: "\n").map { try JSONValue.parse(Array($0.utf8)) }
        }

        func requests() throws -> [Request] {
            try lines().compactMap { line in
                if let violation = line["violation"]?.stringValue { Issue.record("the client broke a rule: \(violation)") }
                guard let path = line["path"]?.stringValue else { return nil }
                return Request(
                    connection: line["connection"]?.integerValue ?? 0, path: path, id: line["id"]?.stringValue ?? "",
                    body: line["body"]?.integerValue ?? 0)
            }
        }

        func stop() {
            guard process.isRunning else { return }
            kill(process.processIdentifier, SIGKILL)
            process.waitUntilExit()
            isRead.wait()
        }
    }

    private func with(_ behaviour: String, _ body: (Server, PoolBench) async throws -> Void) async throws {
        let server = try Server(behaviour)
        let bench = try PoolBench(port: server.port)
        let result: Result<Void, any Error>
        do { result = .success(try await body(server, bench)) } catch { result = .failure(error) }
        await bench.pool.shutdown(deadline: .zero)
        server.stop()
        try result.get()
    }
}
