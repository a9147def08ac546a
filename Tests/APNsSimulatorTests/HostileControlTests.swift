import StrictJSON
import TestSupport
import Testing

@Suite("Hostile bytes at the control API end in one clear answer or a closed connection", .serialized, .timeLimit(.minutes(5)))
struct HostileControlTests {
    private static let follower = "GET /healthz HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n"
    private static let device = ControlAPITests.device

    private static func put(_ fields: String, _ body: String) -> String {
        "PUT \(device) HTTP/1.1\r\nHost: t\r\n\(fields)\r\n\(body)"
    }

    /// The received text and its statuses.
    private static func exchange(_ bytes: [UInt8], _ control: TestControl) async throws -> (statuses: [Int], text: String) {
        try await RawConnection.open(control.port) { connection in
            await connection.send(bytes)
            _ = await connection.readToEnd()
            return (connection.statuses, connection.received)
        }
    }

    private static func exchange(_ text: String, _ control: TestControl) async throws -> (statuses: [Int], text: String) {
        try await exchange(Array(text.utf8), control)
    }

    private static let installed = #"{"environment":"sandbox"}"#
    /// A whole request follows each, and the API must not answer it: without a clear end of one request there is no clear beginning of the
    /// next.
    private static let torn: [String] = [
        put("Content-Length: 25\r\nTransfer-Encoding: chunked\r\n", installed),
        put("Content-Length: 2\r\nContent-Length: 25\r\n", installed),
        put("Content-Length: +25\r\n", installed), put("Content-Length: 2x\r\n", installed), put("Content-Length : 25\r\n", installed),
        put("Content-Length:\r\n 25\r\n", installed), put("Content-Length: 25\r\n", installed).replacing("\r\n", with: "\n"),
        put("Transfer-Encoding: chunked\r\n", "zz\r\n{}\r\n0\r\n\r\n"), put("Transfer-Encoding: chunked\r\n", "2\n{}\n0\n\n"),
        put("Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\n{}\r\n0\r\n\r\n"), put("Transfer-Encoding: identity\r\n", installed),
        put("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), "GET /healthz\r\n\r\n", "get /healthz HTTP/1.1\r\nHost: t\r\n\r\n",
        "GET /hea\u{0}lthz HTTP/1.1\r\nHost: t\r\n\r\n", "GET /healthz HTTP/1.1\r\nX\u{0}: a\r\n\r\n", "\u{16}\u{3}\u{1}\u{0}",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ]

    @Test("A request of HTTP/1.0 is the last on its connection", arguments: ["", "Connection: keep-alive\r\n"])
    func olderVersion(field: String) async throws {
        try await withControl { control in
            let (statuses, text) = try await Self.exchange("GET /healthz HTTP/1.0\r\n\(field)\r\n" + Self.follower, control)
            #expect(statuses == [200])
            #expect(text.lowercased().contains("\r\nconnection: close\r\n"))
        }
    }

    @Test("The API refuses a malformed or ambiguous request and reads nothing after it", arguments: torn)
    func smuggling(_ text: String) async throws {
        try await withControl { control in
            let (statuses, _) = try await Self.exchange(text + Self.follower, control)
            #expect(statuses == [400])
            #expect(try await control.call("GET", "/v1/devices").json?["devices"]?.arrayValue?.isEmpty == true)
        }
    }

    @Test(
        "The API refuses a head that is too large",
        arguments: [
            "X-Long: \(String(repeating: "x", count: 9000))\r\n", (0..<101).map { "X-\($0): 1\r\n" }.joined(),
            (0..<5).map { "X-\($0): \(String(repeating: "x", count: 4000))\r\n" }.joined(),
        ])
    func headerFloods(_ fields: String) async throws {
        try await withControl { control in
            let (statuses, _) = try await Self.exchange("GET /healthz HTTP/1.1\r\nHost: t\r\n\(fields)\r\n" + Self.follower, control)
            #expect(statuses == [400])
            #expect(try await control.call("GET", "/healthz").status == 200)
        }
    }

    @Test("The API refuses endless trailers") func trailers() async throws {
        try await withControl { control in
            let trailers = (0..<2000).map { "X-\($0): 12345678\r\n" }.joined()
            let (statuses, text) = try await Self.exchange(
                Self.put("Transfer-Encoding: chunked\r\n", "2\r\n{}\r\n0\r\n" + trailers + "\r\n"), control)
            // If the simulator closes while the client still writes, the client can lose the answer.
            #expect(statuses == [400] || statuses.isEmpty, "\(text)")
        }
    }

    @Test("The API refuses a body that is too large by its length header or when it gets too long", arguments: [true, false])
    func oversizeBodies(isChunked: Bool) async throws {
        try await withControl { control in
            let answer = try await RawConnection.open(control.port) { connection in
                if isChunked {
                    await connection.send(Self.put("Transfer-Encoding: chunked\r\n", ""))
                    let piece = "8000\r\n" + String(repeating: " ", count: 0x8000) + "\r\n"
                    var sent = 0
                    while sent < 8 << 20, await connection.send(piece) { sent += 0x8000 }
                } else {
                    await connection.send(Self.put("Content-Length: 99999999999\r\n", " "))
                }
                return await connection.read(until: "body_too_large")
            }
            #expect(answer.hasPrefix("HTTP/1.1 413 "))
            #expect(try await control.call("GET", "/healthz").status == 200)
        }
    }

    @Test("The API does not wait for a request that stops midway", arguments: ["", "PUT /v1/dev", put("Content-Length: 25\r\n", "{")])
    func slowClients(_ start: String) async throws {
        try await withControl(idleTimeout: .seconds(1)) { control in
            let (statuses, _) = try await Self.exchange(start, control)
            #expect(!statuses.contains(200) && !statuses.contains(201))
            #expect(try await control.call("GET", "/v1/devices").json?["devices"]?.arrayValue?.isEmpty == true)
        }
    }

    @Test(
        "A body that is not strict JSON is a 400",
        arguments: [
            "", "\u{feff}{}", "{\"environment\":'sandbox'}", "{\"environment\":\"sandbox\"}{}", "{\"environment\":\"sandbox\",}",
            "{\"environment\":\"sandbox\",\"environment\":\"production\"}", "{\"environment\":\"\\ud800\"}", "[]", "null",
            String(repeating: "{\"a\":", count: 5000), String(repeating: "[", count: 900_000),
            "{\"uninstalled_at_ms\":" + String(repeating: "9", count: 60_000) + "}",
        ])
    func malformedJSON(_ body: String) async throws {
        try await withControl { control in
            for (method, path) in [
                ("PUT", Self.device), ("POST", Self.device + "/actions"), ("PUT", Self.device + "/script"), ("POST", "/v1/commands"),
                ("PUT", "/v1/scenario"),
            ] {
                let answer = try await control.call(method, path, body)
                #expect(answer.status == 400, "\(method) \(path): \(answer.text)")
                #expect(
                    ["malformed_json", "invalid_request", "invalid_scenario"].contains(answer.json?["code"]?.stringValue),
                    "\(method) \(path)")
            }
        }
    }

    @Test(
        "A path that does not exist is a 404 with any method",
        arguments: [
            "GET /v1", "GET /v1/devices/x/y/z", "GET /..%2f..%2fetc/passwd",
            "GET /../../etc/passwd", "GET /v1/devices/\(String(repeating: "a", count: 4000))/none", "PROPFIND /none",
        ])
    func unknownRoutes(_ line: String) async throws {
        try await withControl { control in
            let (statuses, text) = try await Self.exchange(
                "\(line) HTTP/1.1\r\nHost: t\r\nX-Secret: sesame\r\n\r\n" + Self.follower, control)
            #expect(statuses == [404, 200], "\(text)")
            #expect(!text.contains("sesame"))
        }
    }

    @Test(
        "A path says which methods it takes, and refuses others",
        arguments: [
            ("TRACE /healthz", 405, "GET, HEAD, OPTIONS"), ("POST /v1/counters", 405, "GET, HEAD, OPTIONS"),
            ("PATCH \(device)", 405, "DELETE, GET, HEAD, OPTIONS, PUT"), ("PROPFIND /", 405, "GET, HEAD, OPTIONS"),
            ("OPTIONS /v1/commands", 204, "OPTIONS, POST"), ("OPTIONS *", 204, nil), ("HEAD /v1/counters", 200, nil),
        ] as [(String, Int, String?)])
    func methods(_ line: String, _ status: Int, _ allow: String?) async throws {
        try await withControl { control in
            let (statuses, text) = try await Self.exchange(
                "\(line) HTTP/1.1\r\nHost: t\r\nX-Secret: sesame\r\n\r\n" + Self.follower, control)
            #expect(statuses == [status, 200], "\(text)")
            #expect(allow.map { text.contains("\r\nAllow: \($0)\r\n") } ?? !text.contains("Allow"), "\(text)")
            #expect(!text.contains("sesame"))
        }
    }

    @Test("Many silent connections do not keep others away") func silentCrowd() async throws {
        try await withControl(idleTimeout: .seconds(1)) { control in
            try await withThrowingTaskGroup(of: [Int].self) { group in
                for number in 0..<200 {
                    group.addTask { try await Self.exchange(number % 2 == 0 ? "" : "GET /healthz HTTP/1.1\r\nHost:", control).statuses }
                }
                for try await statuses in group { #expect(statuses.isEmpty) }
            }
            #expect(try await control.call("GET", "/healthz").status == 200)
        }
    }
}
