import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import PushModel
import StrictJSON
import Testing

/// Speaks JSON to a running service, as one API key's owner. Fails the test that is answered something undescribed.
struct APITestClient: Sendable {
    let port: Int
    let key: String?
    let databaseURI: String

    struct Answer: Sendable {
        let status: Int
        let headers: [(String, String)]
        let bytes: [UInt8]
        let json: JSONValue

        func header(_ name: String) -> String? { headers.first { $0.0.lowercased() == name.lowercased() }?.1 }
        var code: String? { json["code"]?.stringValue }
        /// `pointer code`, one per problem.
        var problems: [String] {
            (json["errors"]?.arrayValue ?? []).map { "\($0["pointer"]?.stringValue ?? "?") \($0["code"]?.stringValue ?? "?")" }
        }
    }

    func with(key: String?) -> APITestClient { APITestClient(port: port, key: key, databaseURI: databaseURI) }

    func call(_ method: String, _ path: String, _ body: String? = nil, headers: [String: String] = [:]) async throws -> Answer {
        var request = HTTPClientRequest(url: "http://127.0.0.1:\(port)\(path)")
        request.method = .init(rawValue: method)
        if let key { request.headers.add(name: "authorization", value: "Bearer \(key)") }
        for (name, value) in headers { request.headers.add(name: name, value: value) }
        if let body { request.body = .bytes(ByteBuffer(string: body)) }
        let response = try await HTTPClient.shared.execute(request, timeout: .minutes(2))
        let bytes = Array((try await response.body.collect(upTo: 4 << 20)).readableBytesView)
        // Lines are no value.
        let type = response.headers.first(name: "content-type").flatMap { $0.split(separator: ";").first.map(String.init) } ?? ""
        let isJSON = type.hasSuffix("/json") || type.hasSuffix("+json")
        let answer = Answer(
            status: Int(response.status.code), headers: response.headers.map { ($0.name, $0.value) }, bytes: bytes,
            json: try JSONValue.parse(isJSON && !bytes.isEmpty ? bytes : Array("null".utf8), maximumBytes: 4 << 20))
        Contract(
            method: method, path: path, requestType: request.headers.first(name: "content-type"),
            requestBody: body.map { Array($0.utf8) }, answer: answer
        ).expectKept()
        return answer
    }

    func get(_ path: String) async throws -> Answer { try await call("GET", path) }
    func put(_ path: String, _ body: String) async throws -> Answer { try await call("PUT", path, body) }
    func post(_ path: String, _ body: String? = nil, headers: [String: String] = [:]) async throws -> Answer {
        try await call("POST", path, body, headers: headers)
    }
    func delete(_ path: String) async throws -> Answer { try await call("DELETE", path) }

    // MARK: The ordinary things

    /// A key of any kind, made by the administrator.
    func makeKey(app: String?, scopes: [String]) async throws -> APITestClient {
        let words = scopes.map { "\"\($0)\"" }.joined(separator: ",")
        let made = try await eventually { () -> Answer? in
            let answer = try await post(
                "/v1/admin/keys", #"{"app":\#(app.map { "\"\($0)\"" } ?? "null"),"name":"test","scopes":[\#(words)]}"#)
            return answer.status == 201 ? answer : nil
        }
        return with(key: made.json["key"]?.stringValue)
    }

    /// An app and a key that may do everything in it.
    func makeApp(_ slug: String = "shop", policy: String = "multi") async throws -> APITestClient {
        _ = try await eventually { () -> Answer? in
            let answer = try await post(
                "/v1/admin/apps",
                #"""
                {"slug":"\#(slug)","bundle_id":"com.example.\#(slug)","device_policy":"\#(policy)","environments":["production","sandbox"]}
                """#
            )
            return answer.status == 201 || answer.status == 200 ? answer : nil
        }
        return try await makeKey(app: slug, scopes: ["devices", "send", "read"])
    }

    @discardableResult
    func register(
        _ id: PushID, user: String?, token: String, environment: String = "production", app: String = "shop", more: String = "",
        tags: [String] = []
    ) async throws -> Answer {
        let user = user.map { "\"\($0)\"" } ?? "null"
        let answer = try await put(
            "/v1/apps/\(app)/installations/\(id)",
            #"{"user":\#(user),"tokens":[{"token":"\#(token)","environment":"\#(environment)"}]\#(more)}"#)
        if !tags.isEmpty { try await setTags(tags, of: id, app: app) }
        return answer
    }

    /// The backend's.
    @discardableResult
    func setTags(_ tags: [String], of id: PushID, app: String = "shop") async throws -> Answer {
        var body = JSONWriter()
        body.object { $0.field("tags", tags) }
        return try await put("/v1/apps/\(app)/installations/\(id)/tags", String(decoding: body.bytes, as: UTF8.self))
    }

    func record(_ id: PushID, app: String = "shop") async throws -> JSONValue {
        try await get("/v1/apps/\(app)/installations/\(id)").json
    }

    func send(_ to: String, app: String = "shop", more: String = "", headers: [String: String] = [:]) async throws -> Answer {
        try await post(
            "/v1/apps/\(app)/notifications", #"{"to":\#(to),"payload":{"aps":{"alert":"hello"}}\#(more)}"#, headers: headers)
    }

    func status(_ id: String, app: String = "shop") async throws -> JSONValue {
        try await get("/v1/apps/\(app)/notifications/\(id)").json
    }
}

/// Asks until there is an answer. The API has no way to wait; the suite's time limit bounds it.
func eventually<Value>(_ answer: () async throws -> Value?) async throws -> Value {
    while true {
        if let value = try await answer() { return value }
        try await Task.sleep(for: .milliseconds(20))
    }
}

extension JSONValue {
    /// The state of each token, `hint state reason`.
    var tokenStates: [String] {
        (self["tokens"]?.arrayValue ?? []).map {
            [$0["hint"]?.stringValue, $0["state"]?.stringValue, $0["retired_reason"]?.stringValue].compactMap { $0 }.joined(separator: " ")
        }
    }
    func text(_ key: String) -> String? { self[key]?.stringValue }
    func number(_ key: String) -> Int64? { self[key]?.integerValue }
}

/// A token that is easy to read: `00…00` with a number at the end.
func token(_ number: Int) -> String {
    let digits = String(number, radix: 16)
    return String(repeating: "0", count: 64 - digits.count) + digits
}

func hint(_ number: Int) -> String { "…" + token(number).suffix(6) }

func installation(_ number: Int) -> PushID { PushID(high: 0x4000, low: 0x8000_0000_0000_0000 | UInt64(number)) }
