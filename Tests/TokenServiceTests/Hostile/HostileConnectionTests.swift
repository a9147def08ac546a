import NIOCore
import Observability
import PushModel
import TestSupport
import Testing

/// Beside `ConnectionTests`, which has the plain cases.
@Suite("A connection that means harm costs no more than itself", .serialized, .timeLimit(.minutes(5)))
struct HostileConnectionTests {
    private static let short = RunningService.Options(settings: ["HTTP_BODY_TIMEOUT_SECONDS": "1", "HTTP_IDLE_TIMEOUT_SECONDS": "1"])

    private static func head(_ fields: String, key: String?) -> String {
        "POST \(HostileRequest.path) HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer \(key ?? "")\r\n\(fields)\r\n"
    }

    /// Bytes come all the time, but no body with them.
    @Test("The service cuts a connection whose chunk never begins", arguments: ["2;", "7fffffffffffffff", "0\r\nX: "])
    func unbegunChunk(start: String) async throws {
        try await RunningService.run { usual in
            // At a process that does not cut the client's own connection while the machine is busy.
            let shop = try await usual.client.makeApp()
            try await usual.another(Self.short) { running in
                let statuses = try await RawConnection.open(running.client.port) { connection in
                    await connection.send(Self.head("Transfer-Encoding: chunked\r\n", key: shop.key) + start)
                    let sending = Task { [outbound = connection.outbound] in
                        while await outbound.send("0".utf8) { try await Task.sleep(for: .milliseconds(20)) }
                    }
                    _ = await connection.readToEnd()
                    try await sending.value
                    return connection.statuses
                }
                #expect(statuses.isEmpty || statuses == [408] || statuses == [400])
                // Not over the client's idle connection, which is cut after a second too; nor over one that the machine let wait so long.
                let others = try await eventually {
                    let statuses = try await RawConnection.open(running.client.port) { connection in
                        await connection.send(HostileRequest.follower)
                        _ = await connection.readToEnd()
                        return connection.statuses
                    }
                    return statuses.isEmpty ? nil : statuses
                }
                #expect(others == [200])
            }
        }
    }

    @Test("The service answers chunks without end with 413") func endlessChunks() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let piece = "4000\r\n" + String(repeating: " ", count: 0x4000) + "\r\n"
            let answer = try await RawConnection.open(running.client.port) { connection in
                await connection.send(Self.head("Transfer-Encoding: chunked\r\n", key: shop.key))
                var sent = 0
                while sent < 4 << 20, await connection.send(piece) { sent += 0x4000 }
                return await connection.read(until: "body_too_large")
            }
            #expect(answer.hasPrefix("HTTP/1.1 413 "))
        }
    }

    @Test("The service says in its refusal that it does not take the rest of the body") func longRest() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let length = 1 + (32 << 20)
            let (answer, rest) = try await RawConnection.open(running.client.port) { connection in
                await connection.send(Self.head("Content-Length: \(length)\r\n", key: shop.key))
                let answer = await connection.read(until: "body_too_large")
                await connection.send(String(repeating: " ", count: length))
                await connection.send(HostileRequest.follower)
                return (answer, await connection.readToEnd())
            }
            #expect(answer.hasPrefix("HTTP/1.1 413 ") && answer.lowercased().contains("connection: close"))
            #expect(!rest.contains("HTTP/1.1 200"))
        }
    }

    @Test("The service answers or closes a connection whose client stops in the middle") func halfRequest() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for (text, expected) in [
                ("", []), ("GET /hea", [400]), (HostileRequest.follower, [200]),
                (Self.head("Content-Length: 20\r\n", key: shop.key) + "{}", [400]),
                (Self.head("Transfer-Encoding: chunked\r\n", key: shop.key) + "2\r\n{}\r\n", [400]),
            ] as [(String, [Int])] {
                let statuses = try await RawConnection.open(running.client.port) { connection in
                    await connection.send(text)
                    connection.outbound.finish()
                    _ = await connection.readToEnd()
                    return connection.statuses
                }
                #expect(statuses == expected, "\(text)")
            }
            #expect(!running.metrics.render().contains(#"status="5"#))
        }
    }

    /// Each gets an answer, in order, however many wait behind it; who takes none is cut off (`ConnectionTests`).
    @Test("The service answers a flood of pipelined requests one by one") func pipelinedFlood() async throws {
        try await RunningService.run { running in
            let count = 3000
            let statuses = try await RawConnection.open(running.client.port) { connection in
                let flood = String(repeating: HostileRequest.follower, count: count)
                let sending = Task { [outbound = connection.outbound] in
                    await outbound.send(flood.utf8)
                    outbound.finish()
                }
                _ = await connection.readToEnd()
                await sending.value
                return connection.statuses
            }
            #expect(statuses.count == count && statuses.allSatisfy { $0 == 200 })
        }
    }

    @Test("The service closes every one of many connections that send nothing") func silentConnections() async throws {
        try await RunningService.run(Self.short) { running in
            let port = running.client.port
            try await withThrowingTaskGroup(of: String.self) { group in
                for number in 0..<200 {
                    group.addTask {
                        try await RawConnection.open(port) { connection in
                            if number % 2 == 0 { await connection.send("GET /healthz HTTP/1.1\r\nHost:") }
                            return await connection.readToEnd()
                        }
                    }
                }
                for try await answer in group { #expect(answer.isEmpty) }
            }
            // Empty if the machine let this connection, too, wait for a second.
            let statuses = try await eventually {
                let statuses = try await RawConnection.open(port) { connection in
                    await connection.send(HostileRequest.follower)
                    _ = await connection.read(until: "\r\n\r\n")
                    return connection.statuses
                }
                return statuses.isEmpty ? nil : statuses
            }
            #expect(statuses == [200])
        }
    }
}
