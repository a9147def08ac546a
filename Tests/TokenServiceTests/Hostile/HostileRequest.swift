/// Bytes that no honest client sends, or that two servers in a row could read in two ways; and what must come of them.
struct HostileRequest: Sendable {
    /// A `GET /healthz` follows each. Where the first request is answered, the second one begins exactly where it ends; where it is
    /// refused, nothing after it is a request.
    enum Result: Sendable {
        /// These statuses, the last of which is the 200 of what follows.
        case answered(Int)
        /// This status alone, and the end of the connection.
        case ended(Int)
    }

    enum Group: CaseIterable {
        case lengths, chunks, heads

        var requests: [HostileRequest] {
            switch self {
            case .lengths: HostileRequest.lengths
            case .chunks: HostileRequest.chunks
            case .heads: HostileRequest.heads + HostileRequest.hosts + HostileRequest.queries
            }
        }
    }

    let name: String
    let bytes: [UInt8]
    let result: Result

    init(_ name: String, _ bytes: String, _ result: Result) { self.init(name, Array(bytes.utf8), result) }

    init(_ name: String, _ bytes: [UInt8], _ result: Result) {
        self.name = name
        self.bytes = bytes
        self.result = result
    }

    static let follower = "GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n"
    /// A route whose body is read, once the key has been looked at: its 400 says that the body came, `invalid_request` that it was `{}`.
    static let path = "/v1/apps/shop/notifications"
    private static let keyLine = "Authorization: Bearer KEY\r\n"

    private static func post(_ fields: String, _ body: String, version: String = "1.1") -> String {
        "POST \(path) HTTP/\(version)\r\nHost: t\r\n\(keyLine)\(fields)\r\n\(body)"
    }
    private static func get(_ fields: String, target: String = "/healthz", method: String = "GET") -> String {
        "\(method) \(target) HTTP/1.1\r\nHost: t\r\n\(fields)\r\n"
    }

    static let lengths: [HostileRequest] =
        [
            HostileRequest("a length and chunks", post("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), .ended(400)),
            HostileRequest("chunks and a length", post("Transfer-Encoding: chunked\r\nContent-Length: 60\r\n", "0\r\n\r\n"), .ended(400)),
            HostileRequest("two lengths", post("Content-Length: 2\r\nContent-Length: 3\r\n", "{} "), .ended(400)),
            HostileRequest("the same length twice", post("Content-Length: 2\r\nContent-Length: 2\r\n", "{}"), .ended(400)),
            HostileRequest("a length with blanks around it", post("Content-Length: \t 2 \r\n", "{}"), .answered(400)),
            HostileRequest("a blank before the colon", post("Content-Length : 2\r\n", "{}"), .ended(400)),
            HostileRequest("a folded field", post("X-A: b\r\n c\r\nContent-Length: 2\r\n", "{}"), .ended(400)),
            HostileRequest("a folded length", post("Content-Length:\r\n 2\r\n", "{}"), .ended(400)),
            HostileRequest("bare line feeds", post("Content-Length: 2\r\n", "{}").replacing("\r\n", with: "\n"), .ended(400)),
            HostileRequest("a bare line feed ends the head", post("Content-Length: 2\r\n\n", "{}"), .ended(400)),
            HostileRequest("a bare carriage return", post("X-A: b\rContent-Length: 2\r\n", "{}"), .ended(400)),
            HostileRequest("what follows a body", post("Content-Length: 2\r\n", "{}xyz"), .ended(400)),
            HostileRequest("a request in a body", post("Content-Length: \(follower.utf8.count)\r\n", follower), .answered(400)),
            HostileRequest(
                "a request in an unread body", post("Content-Length: \(follower.utf8.count)\r\n", follower).without(keyLine),
                .answered(401)),
        ]
        + ["+2", "-2", "2x", "0x2", "2 2", "2,", "2, 2", "", "1e1", "18446744073709551618", "999999999999999999999999"].map {
            HostileRequest("the length '\($0)'", post("Content-Length: \($0)\r\n", "{}"), .ended(400))
        }

    static let chunks: [HostileRequest] =
        [
            HostileRequest("chunks", post(chunked, "1\r\n{\r\n1\r\n}\r\n0\r\n\r\n"), .answered(400)),
            HostileRequest("Chunks", post("transfer-ENCODING: Chunked\r\n", "2\r\n{}\r\n0\r\n\r\n"), .answered(400)),
            HostileRequest("a chunk's extension", post(chunked, "2;a=\"b\"\r\n{}\r\n0\r\n\r\n"), .answered(400)),
            HostileRequest("a chunk's extension that a line feed ends", post(chunked, "2;a\n{}\r\n0\r\n\r\n"), .ended(400)),
            HostileRequest("chunks by line feeds alone", post(chunked, "2\n{}\n0\n\n"), .ended(400)),
            HostileRequest("a chunk without its end", post(chunked, "2\r\n{}0\r\n\r\n"), .ended(400)),
            HostileRequest("chunks in HTTP/1.0", post(chunked, "2\r\n{}\r\n0\r\n\r\n", version: "1.0"), .ended(400)),
            HostileRequest(
                "chunks in HTTP/1.0 that stays", post("Connection: keep-alive\r\n" + chunked, "2\r\n{}\r\n0\r\n\r\n", version: "1.0"),
                .ended(400)
            ),
            HostileRequest("a length among the trailers", post(chunked, "2\r\n{}\r\n0\r\nContent-Length: 5\r\n\r\n"), .ended(400)),
            HostileRequest(
                "trailers without end", post(chunked, "2\r\n{}\r\n0\r\n" + (0..<2000).map { "X-\($0): 12345678\r\n" }.joined()), .ended(400)
            ),
            HostileRequest(
                "the coding is said twice", post("Transfer-Encoding: identity\r\n" + chunked, "2\r\n{}\r\n0\r\n\r\n"), .ended(400)),
        ]
        + ["fffffffffffffffff", "-2", "+2", "0x2", " 2", "2 ", "", "zz", "2\t"].map {
            HostileRequest("the chunk's size '\($0)'", post(chunked, "\($0)\r\n{}\r\n0\r\n\r\n"), .ended(400))
        }
        + [
            "identity", "xchunked", "chunked, identity", "identity, chunked", "gzip, chunked", "chunked, chunked", "\u{0b}chunked",
            "chunked;q=1", "\"chunked\"", "chunked\u{0}", "",
        ].map { HostileRequest("the coding '\($0)'", post("Transfer-Encoding: \($0)\r\n", "2\r\n{}\r\n0\r\n\r\n"), .ended(400)) }

    private static let chunked = "Transfer-Encoding: chunked\r\n"

    static let heads: [HostileRequest] =
        [
            HostileRequest("a blank before the method", " " + get(""), .ended(400)),
            HostileRequest("a blank before the first field", "GET /healthz HTTP/1.1\r\n X: y\r\nHost: t\r\n\r\n", .ended(400)),
            HostileRequest("empty lines before the request", "\r\n\r\n" + get(""), .answered(200)),
            HostileRequest("absolute form: whom it names decides nothing", get("", target: "http://evil.example/healthz"), .answered(200)),
            HostileRequest("absolute form on a route with a scope", get("", target: "http://evil.example/v1/admin/keys"), .answered(401)),
            HostileRequest("authority form", get("", target: "evil.example:80"), .ended(400)),
            HostileRequest("a connection to another host", get("", target: "evil.example:80", method: "CONNECT"), .ended(404)),
            HostileRequest("OPTIONS of everything", get("", target: "*", method: "OPTIONS"), .answered(204)),
            HostileRequest("TRACE is not echoed", get("X-Secret: sesame\r\n", method: "TRACE"), .answered(405)),
            HostileRequest("an unknown method", get("", method: "XYZ"), .ended(400)),
            HostileRequest("a method in small letters", get("", method: "get"), .ended(400)),
            HostileRequest("NUL in a field", get("X: a\u{0}b\r\n"), .ended(400)),
            HostileRequest("NUL in a name", get("X\u{0}: a\r\n"), .ended(400)),
            HostileRequest("NUL in the path", get("", target: "/hea\u{0}lthz"), .ended(400)),
            HostileRequest("a control character in a field", get("X: a\u{1}\u{7f}b\r\n"), .ended(400)),
            HostileRequest(
                "bytes that are no UTF-8 in a field",
                Array("GET /healthz HTTP/1.1\r\nHost: t\r\nX: ".utf8) + [0xff, 0xc3, 0x28] + Array("\r\n\r\n".utf8), .answered(200)),
            HostileRequest(
                "bytes that are no UTF-8 in a key",
                Array("GET /v1/admin/apps HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer ".utf8) + [0xff, 0xfe] + Array("\r\n\r\n".utf8),
                .answered(401)),
            HostileRequest(
                "bytes that are no UTF-8 in the path", Array("GET /".utf8) + [0xff] + Array(" HTTP/1.1\r\n\r\n".utf8), .ended(400)),
            HostileRequest("a version to come", "GET /healthz HTTP/1.2\r\nHost: t\r\n\r\n", .ended(400)),
            HostileRequest("no version", "GET /healthz\r\n\r\n", .ended(400)),
            HostileRequest("HTTP/2 at once", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\u{0}\u{0}\u{0}\u{4}\u{0}\u{0}\u{0}\u{0}\u{0}", .ended(400)),
            HostileRequest(
                "HTTP/2 by upgrade", get("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"), .ended(200)
            ),
            HostileRequest("a web socket", get("Connection: Upgrade\r\nUpgrade: websocket\r\n"), .ended(200)),
            HostileRequest("TLS", [0x16, 3, 1, 0, 0xc2, 1, 0, 0, 0xbe, 3, 3] + [UInt8](repeating: 0, count: 200), .ended(400)),
            HostileRequest("bytes", Array(0...255), .ended(400)),
            HostileRequest("an end that is announced", get("Connection: keep-alive, CLOSE\r\n"), .ended(200)),
            HostileRequest("a path of 20,000 bytes", get("", target: "/" + String(repeating: "a", count: 20_000)), .ended(431)),
            HostileRequest("a method of 100,000 bytes", String(repeating: "A", count: 100_000), .ended(400)),
            HostileRequest(
                "an expectation of HTTP/1.0",
                post("Connection: keep-alive\r\nExpect: 100-continue\r\nContent-Length: 2\r\n", "{}", version: "1.0"),
                .ended(400)),
            HostileRequest("an expectation", post("Expect: 100-continue\r\nContent-Length: 2\r\n", "{}"), .answered(400)),
            HostileRequest("a body with GET", get("Content-Length: 5\r\n") + "GET /", .answered(200)),
            HostileRequest(
                "a packed body", post("Content-Encoding: gzip\r\nContent-Length: 4\r\n", "\u{1f}ABC"), .answered(415)),
            HostileRequest("a method in a field", get("X-HTTP-Method-Override: DELETE\r\nX-Original-URL: /metrics\r\n"), .answered(200)),
            HostileRequest("an answer without a body", get("", target: "/v1/admin/apps", method: "HEAD"), .answered(401)),
        ]
        + [
            "//healthz", "/healthz/", "/./healthz", "/x/../healthz", "/%2e%2e/healthz", "/%68ealthz", "/healthz%00", "/healthz;x=1",
            "/HEALTHZ",
        ]
        .map { HostileRequest("the path \($0)", get("", target: $0), .answered(404)) }
        + ["//v1/admin/apps", "/v1//admin/apps", "/v1/admin/apps/", "/v1%2fadmin/apps", "/v1/x/../admin/apps"]
        .map { HostileRequest("the path \($0)", get(keyLine, target: $0), .answered(404)) }
        + ["%00", "%", "%zz", "%c0%af", "%ed%a0%80", "%ff"]
        .map { HostileRequest("the user \($0)", get(keyLine, target: "/v1/apps/shop/users/\($0)/installations"), .answered(400)) }

    /// RFC 9112 section 3.2.
    static let hosts: [HostileRequest] =
        [
            HostileRequest("no host", "GET /healthz HTTP/1.1\r\n\r\n", .ended(400)),
            HostileRequest("no host, absolute form", "GET http://t/healthz HTTP/1.1\r\n\r\n", .ended(400)),
            HostileRequest("no host in HTTP/1.0", "GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", .ended(200)),
            HostileRequest("HTTP/1.0 and no more", "GET /healthz HTTP/1.0\r\n\r\n", .ended(200)),
            HostileRequest("a body in HTTP/1.0", post("Content-Length: 2\r\n", "{}", version: "1.0"), .ended(400)),
            HostileRequest("two hosts", get("Host: u\r\n"), .ended(400)),
            HostileRequest("the same host twice", get("hOST: t\r\n"), .ended(400)),
        ]
        + ["t u", "u@t", "t/x", "t?x", "t#x", "t\\", "\"t\"", "t:x", "t:80:80", "::1", "[::1", "[::1]x", "[::1/64]", "t, u", "\u{7f}"].map {
            HostileRequest("the host '\($0)'", "GET /healthz HTTP/1.1\r\nHost: \($0)\r\n\r\n", .ended(400))
        }
        + ["", "t:", "t:8080", "[::1]:80", "[fe80::1%25eth0]", "xn--bcher-kva.example", "push_api.internal", "192.0.2.1", "\tt "].map {
            HostileRequest("the host '\($0)'", "GET /healthz HTTP/1.1\r\nHost: \($0)\r\n\r\n", .answered(200))
        }

    static let queries: [HostileRequest] = ["%00", "%", "%zz", "%c0%af", "%ed%a0%80", "%ff"].map { user in
        HostileRequest("the query's user \(user)", get(keyLine, target: "\(path)?user=\(user)"), .answered(400))
    }
}

extension String {
    fileprivate func without(_ part: String) -> String { replacing(part, with: "") }
}
