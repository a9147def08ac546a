import PushModel
import StrictJSON
import Testing
import TokenService

/// A service whose app `shop` has one webhook, and what a test needs to make events.
struct WebhookWorld: Sendable {
    let running: RunningService
    /// May do everything in the app but administer it.
    let shop: APITestClient
    let admin: APITestClient
    let id: String
    let secret: String

    static let path = "/v1/apps/shop/webhooks"

    /// http and this machine are allowed, and retries come at once.
    static func options(_ settings: [String: String] = [:]) -> RunningService.Options {
        RunningService.Options(
            settings: ["WEBHOOK_INSECURE": "true", "WEBHOOK_RETRY_SECONDS": "0,0,0", "WEBHOOK_TIMEOUT_SECONDS": "30"].merging(settings) {
                $1
            })
    }

    init(_ running: RunningService, url: String, events: [String]) async throws {
        self.running = running
        shop = try await running.client.makeApp()
        admin = try await running.client.makeKey(app: "shop", scopes: ["admin"])
        let made = try await Self.make(url: url, events: events, admin)
        id = try #require(made.json.text("id"))
        secret = try #require(made.json.text("secret"))
    }

    static func make(url: String, events: [String], _ admin: APITestClient) async throws -> APITestClient.Answer {
        let words = events.map { "\"\($0)\"" }.joined(separator: ",")
        let made = try await admin.post(path, #"{"url":"\#(url)","events":[\#(words)]}"#)
        try #require(made.status == 201, "\(made.json)")
        return made
    }

    var path: String { "\(Self.path)/\(id)" }

    func webhook() async throws -> JSONValue { try await admin.get(path).json }
    func messages(_ query: String = "") async throws -> [JSONValue] {
        try await admin.get("\(path)/messages\(query)").json["messages"]?.arrayValue ?? []
    }

    /// - Returns: the message's id.
    func ping() async throws -> String {
        let answer = try await admin.post("\(path)/ping")
        try #require(answer.status == 202)
        return try #require(answer.json.text("message"))
    }

    /// The message when it is in that state.
    func message(_ id: String, _ state: String) async throws -> JSONValue {
        try await eventually { try await messages().first { $0.text("id") == id && $0.text("state") == state } }
    }
}
