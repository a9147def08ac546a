import PushAPI
import PushModel
import StrictJSON
import Testing

/// The requests of these tests to the token service and the simulated Apple.
struct Client {
    static let app = "shop"
    let service: PushAPI
    let simulator: PushAPI

    /// Makes the app and a key for it, and gives `body` a client that uses them.
    static func with<Result>(_ platform: Platform, _ tokenService: RunningService, _ body: (Client) async throws -> Result) async throws
        -> Result
    {
        try await PushAPI.with(baseURL: tokenService.url, key: platform.adminKey) { admin in
            try await admin.post("/v1/admin/apps") { body in
                body.field("slug", app)
                body.field("bundle_id", "com.example.shop")
                body.field("device_policy", "multi")
                body.field("environments", ["production", "sandbox"])
            }
            let key = try await admin.post("/v1/admin/keys") { body in
                body.field("app", app)
                body.field("name", "test")
                body.field("scopes", ["devices", "send", "read"])
            }
            return try await body(
                Client(
                    service: admin.other(key: try #require(key["key"]?.stringValue)),
                    simulator: admin.other(baseURL: platform.simulatorURL, key: nil))
            )
        }
    }

    /// The same key and simulator, another token service.
    func talking(to other: RunningService) -> Client {
        Client(service: service.other(baseURL: other.url, key: service.key), simulator: simulator)
    }

    // MARK: The registry

    struct Device {
        let installation = PushID.random()
        let token = hexText((0..<32).map { _ in UInt8.random(in: .min ... .max) })
    }

    func register(_ device: Device, user: String) async throws {
        try await service.put("/v1/apps/\(Self.app)/installations/\(device.installation)") { body in
            body.field("user", user)
            body.array("tokens") { $0.object { $0.field("token", device.token) } }
        }
    }

    func registerDevices(_ count: Int, user: String) async throws -> [Device] {
        var devices: [Device] = []
        for _ in 0..<count {
            let device = Device()
            try await register(device, user: user)
            devices.append(device)
        }
        return devices
    }

    func logOut(_ device: Device) async throws -> JSONValue {
        try await service.post("/v1/apps/\(Self.app)/installations/\(device.installation)/logout") { _ in }
    }

    // MARK: Notifications

    /// - Returns: the notification's id.
    func send(_ text: String, to user: String, ttlSeconds: Int? = nil) async throws -> String {
        let accepted = try await service.post("/v1/apps/\(Self.app)/notifications") { request in
            request.object("to") { $0.field("user", user) }
            request.object("payload") { $0.object("aps") { $0.field("alert", text) } }
            request.field("ttl_seconds", ttlSeconds)
        }
        return try #require(accepted["id"]?.stringValue)
    }

    /// To every device of the app, in the lane `bulk`, with counters and without receipts.
    func sendToAll(_ text: String, ttlSeconds: Int? = nil) async throws -> String {
        let accepted = try await service.post("/v1/apps/\(Self.app)/notifications") { request in
            request.object("to") { $0.field("all", true) }
            request.object("payload") { $0.object("aps") { $0.field("alert", text) } }
            request.field("ttl_seconds", ttlSeconds)
        }
        return try #require(accepted["id"]?.stringValue)
    }

    func status(_ id: String) async throws -> JSONValue { try await service.get("/v1/apps/\(Self.app)/notifications/\(id)") }

    func completed(_ id: String) async throws -> JSONValue {
        try await eventually("notification \(id) is completed") {
            let status = try await status(id)
            return ["completed", "expired", "no_targets"].contains(status["state"]?.stringValue) ? status : nil
        }
    }

    // MARK: The simulated Apple

    struct Arrival: Hashable {
        let token: String
        let apnsID: String
        let status: Int64
    }

    /// All pushes that APNs received, in order.
    func arrivals() async throws -> [Arrival] {
        let journal = try await simulator.get("/v1/journal")
        return (journal["requests"]?.arrayValue ?? []).map { request in
            Arrival(
                token: request["token"]?.stringValue ?? "", apnsID: request["apns_id"]?.stringValue?.lowercased() ?? "",
                status: request["status"]?.integerValue ?? 0)
        }
    }

    /// The next answers to pushes for this device; then it accepts.
    func script(_ device: Device, _ answers: (inout JSONWriter) -> Void) async throws {
        try await simulator.put("/v1/devices/\(device.token)/script") { body in
            body.array("answers", answers)
            body.field("then", "accept")
        }
    }
}

extension JSONValue {
    func count(_ name: String) -> Int64 { self["counts"]?[name]?.integerValue ?? 0 }
}
