import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import StrictJSON
import Testing

extension APITestClient {
    /// What came of a stream: its status and each of its lines.
    struct Lines: Sendable {
        let status: Int
        var texts: [String]
        var lines: [JSONValue] { get throws { try texts.map { try JSONValue.parse(Array($0.utf8)) } } }
    }

    func importLines(_ lines: [String], app: String = "shop", query: String = "") async throws -> Lines {
        try await stream("POST", "/v1/apps/\(app)/import\(query)", body: .bytes(ByteBuffer(string: lines.joined(separator: "\n") + "\n")))
    }

    func export(app: String = "shop", query: String = "") async throws -> Lines {
        try await stream("GET", "/v1/apps/\(app)/export\(query)")
    }

    func stream(_ method: String, _ path: String, body: HTTPClientRequest.Body? = nil) async throws -> Lines {
        var request = HTTPClientRequest(url: "http://127.0.0.1:\(port)\(path)")
        request.method = .init(rawValue: method)
        if let key { request.headers.add(name: "authorization", value: "Bearer \(key)") }
        request.headers.add(name: "content-type", value: "application/x-ndjson")
        request.body = body
        let response = try await HTTPClient.shared.execute(request, timeout: .minutes(2))
        let text = String(buffer: try await response.body.collect(upTo: 64 << 20))
        return Lines(status: Int(response.status.code), texts: text.split(separator: "\n").map(String.init))
    }
}

/// One line of an import.
func importLine(_ number: Int, user: String? = "ada", token tokenNumber: Int? = nil, more: String = "") -> String {
    let user = user.map { "\"\($0)\"" } ?? "null"
    return #"{"id":"\#(installation(number))","user":\#(user),"tokens":[{"token":"\#(token(tokenNumber ?? number))"}]\#(more)}"#
}
