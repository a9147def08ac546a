import PushAPI
import StrictJSON
import Testing

@Suite("The platform explains how to repair a credential", .timeLimit(.minutes(5)))
struct CredentialExplanationTests {
    @Test("The platform names a key that APNs refuses, APNs' reason, and the person who replaces it") func revokedKey() async throws {
        try await withPlatform { platform in
            try await platform.startSimulator()
            let tokenService = try await platform.startTokenService()
            try await platform.startDispatcher("dispatcher", ["APNS_CREDENTIALS_CHECK_SECONDS": "1"])
            try await Client.with(platform, tokenService) { client in
                _ = try await client.registerDevices(1, user: "ada")
                try await client.simulator.put("/v1/keys/DEMO123456") { $0.field("state", "revoked") }
                // The pool is paused for the second notification, so the dispatcher did not ask APNs.
                for text in ["first", "second"] {
                    let id = try await client.send(text, to: "ada")
                    try await Self.expect(
                        "Waiting: APNs refuses key DEMO123456 (InvalidProviderToken); the operator must replace it.", of: id,
                        to: client.service)
                }
                try await client.simulator.put("/v1/keys/DEMO123456") { $0.field("state", "active") }
            }
        }
    }

    @Test("The platform warns about an app without a credential when it is made, and explains it at the first send")
    func noCredential() async throws {
        try await withPlatform { platform in
            try await platform.startSimulator()
            let tokenService = try await platform.startTokenService()
            try await platform.startDispatcher()
            func create(_ app: String) async throws -> [String] {
                let (ending, output) = try await platform.run(
                    "pushctl",
                    [
                        "apps", "create", app, "--bundle-id", "com.example.\(app)", "--url", tokenService.url, "--key-file",
                        "\(platform.folder)/admin.key",
                    ])
                #expect(ending == .exited(0), "\(output)")
                return output.split(separator: "\n").map(String.init)
            }
            // Wait for the dispatcher's report.
            _ = try await eventually("the dispatcher has reported its credential for shop") {
                try await create("shop") == ["shop is there"] ? true : nil
            }
            let made = try await create("bank")
            #expect(made.first == "bank is there")
            for environment in ["production", "sandbox"] {
                let warning = "warning: no dispatcher has reported a credential for bank in \(environment)"
                #expect(made.contains { $0.hasPrefix(warning) }, "\(made)")
            }
            try await PushAPI.with(baseURL: tokenService.url, key: platform.adminKey) { admin in
                let key = try await admin.post("/v1/admin/keys") { body in
                    body.field("app", "bank")
                    body.field("name", "test")
                    body.field("scopes", ["devices", "send", "read"])
                }
                let bank = admin.other(key: try #require(key["key"]?.stringValue))
                let device = Client.Device()
                try await bank.put("/v1/apps/bank/installations/\(device.installation)") { body in
                    body.field("user", "ada")
                    body.array("tokens") { $0.object { $0.field("token", device.token) } }
                }
                let accepted = try await bank.post("/v1/apps/bank/notifications") { request in
                    request.object("to") { $0.field("user", "ada") }
                    request.object("payload") { $0.object("aps") { $0.field("alert", "hello") } }
                }
                try await Self.expect(
                    """
                    Waiting: No dispatcher has a credential for the app in production; the operator must add one to APNS_CREDENTIALS_FILE.
                    """,
                    of: try #require(accepted["id"]?.stringValue), app: "bank", to: bank)
            }
        }
    }

    /// The final output of `why`. Before the outcome and the report come, it says less.
    private static func expect(_ sentence: String, of id: String, app: String = Client.app, to client: PushAPI) async throws {
        var last = ""
        do {
            _ = try await eventually("why says it") {
                last = try await client.get("/v1/apps/\(app)/notifications/\(id)/why?user=ada")["explanation"]?.stringValue ?? ""
                return last == sentence ? true : nil
            }
        } catch is NeverHappened {
            #expect(last == sentence)
        }
    }
}
