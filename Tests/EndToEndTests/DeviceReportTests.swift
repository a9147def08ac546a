import Foundation
import PushAPI
import PushClient
import StrictJSON
import TestSupport
import Testing

/// The app's library, the services and a sender, over the whole way of a receipt.
@Suite("What a device reports reaches the sender", .timeLimit(.minutes(5)))
struct DeviceReportTests {
    @Test("A push names its job, the app reports that it was shown and opened, and the status says so, once") func shownAndOpened()
        async throws
    {
        try await withPlatform { platform in
            try await platform.startSimulator()
            let service = try await platform.startTokenService(try platform.deviceCredentials())
            try await platform.startDispatcher()
            try await Client.with(platform, service) { sender in
                let shop = PushAPI(baseURL: service.url, key: sender.service.key).app(Client.app)
                let token = Data((0..<32).map { _ in UInt8.random(in: .min ... .max) })
                let hex = token.map { String(format: "%02x", $0) }.joined()
                try await sender.simulator.put("/v1/devices/\(hex)") { device in
                    device.field("environment", "production")
                    device.field("state", "installed")
                }
                let (inbox, app) = Self.app(shop, folder: URL(fileURLWithPath: platform.folder))
                inbox.put(.token(token, purpose: .alert))
                app.signIn(as: "ada")
                _ = try await eventually("the app has registered") { app.status.flatMap { $0.isUploaded ? $0 : nil } }

                var news = PushAPI.NewNotification(to: .user("ada"), .payload(["aps": ["alert": "Hello", "mutable-content": 1]]))
                news.deviceReceipts = true
                let end = try await shop.end(of: try await shop.send(news).id)
                #expect(end.counts["accepted"] == 1 && end.deviceReceipts == ["shown": 0, "opened": 0, "dismissed": 0])

                let screen = try await sender.simulator.get("/v1/devices/\(hex)/inbox")
                let source = try #require(screen["notifications"]?.arrayValue?.first?["custom"]?["push-receipt"])
                let push = try Self.push(source)
                #expect(push.source?.notification.uuidString.lowercased() == end.id)
                try await Self.showAndOpen(push, in: app, inbox, folder: URL(fileURLWithPath: platform.folder))

                let reported = try await eventually("the service has both receipts") {
                    let status = try await shop.status(end.id)
                    return status.deviceReceipts == ["shown": 1, "opened": 1, "dismissed": 0] ? status : nil
                }
                let delivery = try #require(reported.deliveries.first)
                #expect(delivery.shownAt != nil && delivery.openedAt != nil && delivery.dismissedAt == nil)
                // The service has them a moment before the app has its answer.
                _ = try await eventually("the app knows") { app.status?.pendingReceipts == 0 ? true : nil }
            }
        }
    }

    /// The payload that the device got.
    private static func push(_ source: JSONValue) throws -> PushNotification {
        let (notification, job) = (try #require(source["notification"]?.stringValue), try #require(source["job"]?.integerValue))
        return try PushNotification(
            json: Data(#"{"aps":{"alert":"Hello"},"push-receipt":{"notification":"\#(notification)","job":\#(job)}}"#.utf8))
    }

    private static func app(_ shop: PushAPI.App, folder: URL) -> (PushInbox, PushClient) {
        let backend = Backend(shop: shop)
        let configuration = PushConfiguration(
            app: shop.slug, environment: .production, server: .tokenService(backend, credentials: backend),
            store: FilePushStore(folder: folder.appendingPathComponent("device")), receiptDelay: .milliseconds(1))
        let inbox = PushInbox()
        return (inbox, PushClient(configuration, inbox: inbox))
    }

    /// The service extension leaves a receipt, and the person taps twice.
    private static func showAndOpen(_ push: PushNotification, in app: PushClient, _ inbox: PushInbox, folder: URL) async throws {
        let receipts = ReceiptFolder(folder: folder.appendingPathComponent("receipts"))
        _ = try await ReceiptStep(folder: receipts).improve(NotificationContent(push))
        try receipts.collect(into: app)
        app.onTap(PushRoutes { _ in })
        for _ in 1...2 { inbox.put(.tap(PushTap(notification: push, action: .open))) }
    }
}

/// The company's backend gives the credential; the app's requests go to the token service.
private struct Backend: PushTransport, CredentialSource {
    let shop: PushAPI.App

    func send(_ request: PushRequest) async throws -> PushResponse {
        let method = try #require(PushAPI.Method(rawValue: request.method))
        let key = request.headers["Authorization"].map { String($0.dropFirst("Bearer ".count)) }
        var call = PushAPI.Call(method, request.path, json: request.body.map(Array.init))
        call.isRepeatable = false
        let answer = try await PushAPI(baseURL: shop.api.baseURL, key: key).once(call)
        return PushResponse(status: answer.status, headers: answer.headers, body: Data(answer.body))
    }

    func credential(installation: UUID, user: String?) async throws -> DeviceCredential? {
        let made = try await shop.deviceCredential(installation: installation.uuidString.lowercased(), user: user)
        return try DeviceCredential(answer: Data(try #require(made.answer).bytes))
    }
}
