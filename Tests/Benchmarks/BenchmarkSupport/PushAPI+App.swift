package import PushAPI
import StrictJSON

extension PushAPI {
    /// Makes the app, or finds it made, and a key that may use it.
    package static func makeApp(_ slug: String, at url: String, admin: String, scopes: [String]) async throws -> String {
        try await with(baseURL: url, key: admin) { admin in
            try await admin.post("/v1/admin/apps") { app in
                app.field("slug", slug)
                app.field("bundle_id", "com.example.\(slug)")
                app.field("device_policy", "multi")
                app.field("environments", ["production"])
            }
            let made = try await admin.post("/v1/admin/keys") { key in
                key.field("app", slug)
                key.field("name", "benchmark")
                key.field("scopes", scopes)
            }
            guard let key = made["key"]?.stringValue else { throw BenchmarkError("the service made a key but did not show it") }
            return key
        }
    }
}
