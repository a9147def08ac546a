import Foundation
import PushAPI
import Testing

/// What a Swift backend does, by the library alone, against the real services.
@Suite("A Swift backend against the real services", .timeLimit(.minutes(5)))
struct SwiftBackendTests {
    @Test("It registers, sends, follows, explains, cancels and signs out") func wholeLife() async throws {
        try await withPlatform { platform in
            try await platform.startSimulator()
            let service = try await platform.startTokenService(try platform.deviceCredentials())
            try await platform.startDispatcher()
            try await Client.with(platform, service) { client in
                let device = Client.Device()
                let (phone, key) = ("\(device.installation)", try #require(client.service.key))
                let end = try await Self.guide(baseURL: service.url, key: key, installation: phone, token: device.token)
                #expect(end.state == .completed && end.counts["accepted"] == 1 && end.counts["total"] == 1)
                let shop = PushAPI(baseURL: service.url, key: key).app("shop")
                // The guide sends the same notification again.
                let again = try await Self.guide(baseURL: service.url, key: key, installation: phone, token: device.token)
                #expect(again.id == end.id)
                #expect(try await client.arrivals().map(\.token) == [device.token])
                try await Self.follow(end, on: phone, shop)
                try await Self.stop(shop)
                try await Self.signOut(phone, shop)
            }
        }
    }

    /// The code of docs/guides/swift-backend.md.
    private static func guide(
        baseURL: String, key: String, installation: String, token: String
    ) async throws -> PushAPI.NotificationStatus {
        let shop = PushAPI(baseURL: baseURL, key: key).app("shop")
        // The app has sent its installation id and its token, and ada is signed in.
        try await shop.register(installation, .init(user: "ada", tokens: [.init(token)]))
        // Her order is packed.
        let news = PushAPI.NewNotification(to: .user("ada"), .alert(title: "Your order is packed", body: "It leaves tonight"))
        let receipt = try await shop.send(news, idempotencyKey: "order-4711-packed")
        let end = try await shop.end(of: receipt.id)
        print("APNs accepted \(end.counts["accepted"] ?? 0) of \(end.counts["total"] ?? 0)")
        return end
    }

    @Test("The guide shows the code that this suite runs") func theGuidesCode() throws {
        func lines(_ text: String) -> String {
            text.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }.joined(separator: "\n")
        }
        let guide = try String(contentsOfFile: "\(repositoryFolder)/docs/guides/swift-backend.md", encoding: .utf8)
        let block = try #require(guide.components(separatedBy: "```swift\n").dropFirst().first?.components(separatedBy: "```").first)
        let code = try #require(block.components(separatedBy: "import PushAPI\n").last)
        let source = try String(contentsOfFile: #filePath, encoding: .utf8)
        #expect(lines(source).contains(lines(code)))
    }

    private static func follow(_ end: PushAPI.NotificationStatus, on phone: String, _ shop: PushAPI.App) async throws {
        var deliveries: [PushAPI.Delivery] = []
        for try await delivery in shop.deliveries(of: end.id, state: "accepted", installation: phone) { deliveries.append(delivery) }
        #expect(deliveries.map(\.id) == end.deliveries.map(\.id) && deliveries.map(\.status) == [200])
        #expect(try await shop.why(end.id, user: "ada").conclusion == "sent")
        #expect(try await shop.why(end.id, user: "grace").conclusion == "not_addressed")
        #expect(try await shop.cancel(end.id).state == .completed)
        let validation = try await shop.validate(.init(to: .user("ada"), .payload(["aps": ["alert": "Hello"]])))
        #expect(validation.audience.devices == 1 && validation.payloads.map(\.payload) == [["aps": ["alert": "Hello"]]])
    }

    private static func stop(_ shop: PushAPI.App) async throws {
        var later = PushAPI.NewNotification(to: .user("ada"), .payload(["aps": ["alert": "Later"]]))
        later.notBefore = Date(timeIntervalSinceNow: 3600)
        let results = try await shop.send([.init(later), .init(.init(to: .users([]), .alert(title: "To nobody")))])
        let scheduled = try results[0].get()
        #expect(scheduled.state == .scheduled)
        let error = #expect(throws: PushAPIError.self) { try results[1].get() }
        guard case .refused(let problem) = error else {
            Issue.record("an empty list was not refused: \(String(describing: error))")
            return
        }
        #expect(problem.code == "invalid_request" && problem.errors.map(\.pointer) == ["/to/users"])
        #expect(try await shop.cancel(scheduled.id).state == .cancelled)
    }

    private static func signOut(_ phone: String, _ shop: PushAPI.App) async throws {
        var change = PushAPI.Change()
        change.appTags = ["beta"]
        change.locale = .value("de_DE")
        let before = try await shop.installation(phone)
        let after = try await shop.change(phone, change, ifMatch: before.entityTag)
        #expect(
            after.appTags == ["beta"] && after.tags.isEmpty && after.locale == "de_DE" && after.user == "ada"
                && after.entityTag != before.entityTag)
        #expect(try await shop.setTags(phone, ["staff"], ifMatch: after.entityTag).tags == ["staff"])
        let session = PushAPI.DeviceSession(user: "ada", installation: phone)
        let forwarded = PushAPI.DeviceRequest(
            method: "PATCH", path: "/v1/apps/shop/installations/\(phone)", body: Array(#"{"user":"ada","app_tags":["staff"]}"#.utf8))
        #expect(try await shop.forward(forwarded, in: session).status == 200)
        let both = try await shop.installation(phone)
        #expect(both.tags == ["staff"] && both.appTags == ["staff"])
        let credential = try await shop.deviceCredential(installation: phone, user: "ada", lifetime: .seconds(60))
        #expect(credential.credential.hasPrefix("psd_"))
        await expect("precondition_failed") { try await shop.change(phone, change, ifMatch: before.entityTag) }
        await expect("owner_mismatch") { try await shop.signOut(phone, expectedUser: "grace") }
        await expect("owner_mismatch") {
            try await shop.register(phone, .init(user: "ada", tokens: []), expected: .nobody)
        }
        let out = try await shop.signOut(phone, expectedUser: "ada")
        #expect(out.signedOut && out.fence == .effective && out.ownerEpoch == before.ownerEpoch + 1)
        #expect(try await shop.send(.init(to: .user("ada"), .alert(title: "Secret"))).state == .noTargets)
        #expect(try await shop.signOutEverywhere(user: "ada").signedOut == 0)
        try await shop.deregister(phone)
        await expect("not_found") { try await shop.installation(phone) }
    }

    private static func expect(_ code: String, _ call: () async throws -> Any) async {
        do {
            _ = try await call()
            Issue.record("the call was not refused: \(code)")
        } catch PushAPIError.refused(let problem) {
            #expect(problem.code == code)
        } catch {
            Issue.record("\(error)")
        }
    }
}
