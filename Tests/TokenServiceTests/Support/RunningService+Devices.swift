import Foundation
import PushModel
import StrictJSON
import Testing

extension RunningService {
    /// Signs device credentials.
    static let deviceKey = String(repeating: "0f", count: 32)

    /// A service with device credentials, and the app `shop`.
    static func withDevices(
        _ settings: [String: String] = [:], _ body: @escaping @Sendable (RunningService, APITestClient) async throws -> Void
    ) async throws {
        let file = NSTemporaryDirectory() + "/device-keys-\(UUID())"
        try Data(deviceKey.utf8).write(to: URL(filePath: file))
        defer { try? FileManager.default.removeItem(atPath: file) }
        var settings = settings
        settings["DEVICE_CREDENTIAL_KEYS_FILE"] = file
        try await run(.init(settings: settings)) { running in
            try await body(running, try await running.client.makeApp())
        }
    }
}

extension APITestClient {
    /// A device with a credential of its own.
    func device(user: String?, id: PushID = installation(1)) async throws -> APITestClient {
        let name = user.map { "\"\($0)\"" } ?? "null"
        let made = try await post("/v1/apps/shop/device-credentials", #"{"installation":"\#(id)","user":\#(name)}"#)
        #expect(made.status == 201)
        return with(key: made.json.text("credential"))
    }
}
