import NIOCore
import Postgres
import TestSupport
import Testing

/// curl and others wait a second for this word before they send a large body.
@Suite("The service answers a client that asks whether it may send its body", .serialized, .timeLimit(.minutes(5)))
struct ExpectationTests {
    private static let registration = #"{"user":"ada","tokens":[]}"#
    private static let go = "HTTP/1.1 100 Continue\r\n\r\n"

    private static func head(
        _ fields: String, of path: String = "/v1/apps/shop/installations/\(installation(1))", method: String = "PUT", key: String?
    ) -> String {
        let authorization = key.map { "Authorization: Bearer \($0)\r\n" } ?? ""
        return "\(method) \(path) HTTP/1.1\r\nHost: t\r\n\(authorization)Expect: 100-continue\r\n\(fields)\r\n"
    }

    @Test("Yes, and the answer follows the body; the connection goes on", arguments: [true, false])
    func wantedBody(isChunked: Bool) async throws {
        try await RunningService.run { running in
            let key = try await running.client.makeApp().key
            let length = Self.registration.utf8.count
            let (fields, body) =
                isChunked
                ? ("Transfer-Encoding: chunked\r\n", "\(String(length, radix: 16))\r\n\(Self.registration)\r\n0\r\n\r\n")
                : ("Content-Length: \(length)\r\n", Self.registration)
            let statuses = try await RawConnection.open(running.client.port) { connection in
                await connection.send(Self.head(fields, key: key))
                #expect(await connection.read(until: "\r\n\r\n") == Self.go)
                connection.forget()
                await connection.send(body + HostileRequest.follower.replacing("Host: t", with: "Host: t\r\nConnection: close"))
                _ = await connection.readToEnd()
                return connection.statuses
            }
            #expect(statuses == [201, 200])
            #expect(try await running.count("SELECT count(*) FROM installations") == 1)
        }
    }

    @Test(
        "No, by the answer itself, and nothing that follows is a request",
        arguments: [
            ("/v1/apps/shop/notifications", "Content-Length: 2\r\n", true, 401), ("/v1/nothing", "Content-Length: 2\r\n", true, 404),
            ("/v1/apps/shop/notifications", "Content-Length: 99999999\r\n", false, 413),
            ("/v1/apps/shop/notifications", "Content-Length: 2\r\nContent-Encoding: gzip\r\n", false, 415),
            ("/v1/apps/shop/notifications", "Transfer-Encoding: chunked\r\nContent-Encoding: br\r\n", false, 415),
        ])
    func refusedBody(path: String, fields: String, isStranger: Bool, status: Int) async throws {
        try await RunningService.run { running in
            let key = try await running.client.makeApp().key
            let answer = try await RawConnection.open(running.client.port) { connection in
                await connection.send(Self.head(fields, of: path, method: "POST", key: isStranger ? nil : key))
                _ = await connection.read(until: "}")
                // The body that was announced would be as long as this, or longer.
                await connection.send(HostileRequest.follower)
                connection.outbound.finish()
                _ = await connection.readToEnd()
                #expect(connection.statuses == [status])
                return connection.received
            }
            #expect(answer.contains("\r\nConnection: close\r\n") || answer.contains("\r\nconnection: close\r\n"), "\(answer)")
        }
    }

    @Test("Not when the body has come already, nor in HTTP/1.0")
    func arrivedBody() async throws {
        try await RunningService.run { running in
            let key = try await running.client.makeApp().key
            for version in ["1.1", "1.0"] {
                let head = Self.head("Connection: close\r\nContent-Length: \(Self.registration.utf8.count)\r\n", key: key)
                let statuses = try await RawConnection.open(running.client.port) { connection in
                    await connection.send(head.replacing("HTTP/1.1", with: "HTTP/\(version)") + Self.registration)
                    _ = await connection.readToEnd()
                    return connection.statuses
                }
                #expect(statuses == [version == "1.1" ? 201 : 200])
            }
        }
    }

    @Test("In HTTP/1.0 the service says nothing and waits for the body")
    func olderVersion() async throws {
        try await RunningService.run { usual in
            // At a process that does not cut the client's own connection while the machine is busy.
            let key = try await usual.client.makeApp().key
            try await usual.another(RunningService.Options(settings: ["HTTP_BODY_TIMEOUT_SECONDS": "1"])) { running in
                let statuses = try await RawConnection.open(running.client.port) { connection in
                    await connection.send(Self.head("Content-Length: 2\r\n", key: key).replacing("HTTP/1.1", with: "HTTP/1.0"))
                    _ = await connection.readToEnd()
                    return connection.statuses
                }
                #expect(statuses == [408])
            }
        }
    }

    /// Its answer begins before its lines are read.
    @Test("An import gets the answer, too, once")
    func importedBody() async throws {
        try await RunningService.run { running in
            let key = try await running.client.makeApp().key
            let line = #"{"id":"\#(installation(1))","user":"ada","tokens":[]}"# + "\n"
            let (first, statuses) = try await RawConnection.open(running.client.port) { connection in
                await connection.send(
                    Self.head(
                        "Connection: close\r\nContent-Length: \(line.utf8.count)\r\n", of: "/v1/apps/shop/import", method: "POST", key: key)
                )
                let first = await connection.read(until: "\r\n\r\n")
                await connection.send(line)
                _ = await connection.readToEnd()
                return (first, connection.statuses)
            }
            #expect(first.hasPrefix(Self.go) && statuses == [100, 200])
            #expect(try await running.count("SELECT count(*) FROM installations") == 1)
        }
    }

    /// It neither sends the body that it announced nor goes: the answer's `close` is done all the same (RFC 9112 section 9.6), first
    /// towards the client, then for good. Its limits are an hour here.
    @Test(
        "The service closes a connection that it announced to close",
        arguments: ["Expect: 100-continue\r\nContent-Length: 99999999\r\n", "Connection: close\r\n"])
    func stayingClient(fields: String) async throws {
        let hour = ["HTTP_BODY_TIMEOUT_SECONDS": "3600", "HTTP_IDLE_TIMEOUT_SECONDS": "3600"]
        try await RunningService.run(RunningService.Options(settings: hour)) { running in
            let answer = try await RawConnection.open(running.client.port) { connection in
                await connection.send("GET /v1/nothing HTTP/1.1\r\nHost: t\r\n\(fields)\r\n")
                let answer = await connection.readToEnd()
                while await connection.send(" ") { try await Task.sleep(for: .milliseconds(20)) }
                return answer
            }
            #expect(answer.hasPrefix("HTTP/1.1 404 ") && answer.lowercased().contains("\r\nconnection: close\r\n"), "\(answer)")
        }
    }
}
