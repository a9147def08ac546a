import FoundationEssentials
import PushAPI
import PushClient
import PushModel
import Synchronization

/// A device whose app uses PushClient. The other devices of the demonstration are calls of a backend.
extension Demonstration {
    mutating func registerTheEarlyToken() async throws {
        try report.begin("A token that comes before the app's client exists is kept, and registered")
        var device = DemoDevice("Ada's new iPhone")
        try await install(device)
        let inbox = PushInbox()
        inbox.put(.token(device.tokenBytes, purpose: .alert))
        try report.fact("iOS gave \(device.name)'s token while the app had no client yet: it waits in the app's inbox")

        let client = PushClient(
            PushConfiguration(
                app: backend.slug, environment: .production, server: .backend(DemoBackend(api: backend.api)), store: DemoStore()),
            inbox: inbox)
        client.signIn(as: ada)
        let status = try await eventually("\(device.name) has registered") { client.status.flatMap { $0.isUploaded ? $0 : nil } }
        let record = try await backend.installation(status.installation.uuidString)
        let active = record.tokens.filter(\.isActive).map { $0.hint.suffix(6) }
        try expect(
            record.user == ada && active.count == 1 && active.allSatisfy(device.token.hasSuffix),
            "the token that came early is not registered for \(ada)")
        try report.fact("the client took it from there, \(ada) signed in, and the registry has both")

        device.installation = record.id
        let push = try await send("Welcome to your new iPhone", "Your token came early, and was kept", to: ada)
        let end = try await settled(push)
        try await show(push, end, on: [phone, tablet, device])
        try expect(count(end, "accepted") == 2, "not every device of \(ada) got it")
        try await expectInbox(device, 1)
        try report.fact("a notification reaches it")
    }
}

/// The company's backend: it forwards the app's requests with the key that the app must not have.
private struct DemoBackend: PushTransport {
    let api: PushAPI

    func send(_ request: PushRequest) async throws -> PushResponse {
        guard let method = PushAPI.Method(rawValue: request.method) else { throw CommandFailure("the app sent \(request.method)") }
        let answer = try await api.once(.init(method, request.path, json: request.body.map(Array.init)))
        return PushResponse(status: answer.status, headers: answer.headers, body: Data(answer.body))
    }
}

/// The device's storage.
private final class DemoStore: PushStore {
    private let items = Mutex<[PushStoreItem: Data]>([:])

    func read(_ item: PushStoreItem) throws -> Data? { items.withLock { $0[item] } }
    func write(_ data: Data?, for item: PushStoreItem) throws { items.withLock { $0[item] = data } }
}
