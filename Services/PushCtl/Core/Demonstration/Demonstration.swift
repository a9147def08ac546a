import ArgumentParser
import FoundationEssentials
import PushAPI
import PushClient
import PushModel
import StrictJSON
import Synchronization

/// The main use case, step by step, through the public API alone. Every step checks its claim and throws if it does not hold.
struct Demonstration {
    let backend: PushAPI.App
    let simulator: PushAPI
    let ada: String
    let grace: String
    var report = DemoReport()

    var phone = DemoDevice("Ada's iPhone")
    let tablet = DemoDevice("Ada's iPad (sandbox)", .sandbox)
    let shared = DemoDevice("the family iPad")
    var otherPhone = DemoDevice("Grace's iPhone")

    /// Makes the app, and a key with the rights of a backend team and a product service.
    init(admin: PushAPI, simulator: PushAPI, app: String) async throws {
        self.simulator = simulator
        try await admin.post("/v1/admin/apps") { body in
            body.field("slug", app)
            body.field("bundle_id", "com.example.\(app)")
            body.field("device_policy", "multi")
            body.field("environments", ["production", "sandbox"])
        }
        let created = try await admin.post("/v1/admin/keys") { body in
            body.field("app", app)
            body.field("name", "demonstration")
            body.field("scopes", ["devices", "send", "read"])
        }
        guard let key = created["key"]?.stringValue else { throw CommandFailure("the token service made a key but did not show it") }
        backend = admin.other(key: key).app(app)
        let run = String(PushID.random().description.suffix(6))
        ada = "ada-\(run)"
        grace = "grace-\(run)"
    }

    mutating func run() async throws {
        try await registerEveryone()
        try await sendToUsers()
        try await retireAndRevive()
        try await throttleAndRetry()
        try await logOutWhileQueued()
        try await registerTheEarlyToken()
    }
}

// MARK: - The steps

extension Demonstration {
    private mutating func registerEveryone() async throws {
        try report.begin("Users register their devices")
        for device in [phone, tablet, shared, otherPhone] { try await install(device) }
        try await register(phone, user: ada)
        try await register(tablet, user: ada)
        try report.fact("\(ada) is signed in on \(phone.name) and on \(tablet.name)")

        let before = try await register(shared, user: ada)
        let after = try await register(shared, user: grace)
        try expect(after.user == grace && after.ownerEpoch > before.ownerEpoch, "\(shared.name) did not change hands")
        try report.fact("\(shared.name) changed hands from \(ada) to \(grace): owner epoch \(before.ownerEpoch) → \(after.ownerEpoch)")

        try await register(otherPhone, user: grace)
        let oldToken = otherPhone.token
        otherPhone.reinstall()
        try await install(otherPhone)
        let record = try await register(otherPhone, user: grace)
        let active = record.tokens.filter(\.isActive).map { $0.hint.suffix(6) }
        try expect(
            active.contains { otherPhone.token.hasSuffix($0) } && !active.contains { oldToken.hasSuffix($0) },
            "the token before \(otherPhone.name)'s reinstall is still active")
        try report.fact("\(otherPhone.name) was reinstalled: its new token replaced the old one")
    }

    private mutating func sendToUsers() async throws {
        try report.begin("A notification goes to every device of a user, and to no other device")
        let toAda = try await send("Your table is booked", "Friday, 19:30, for two", to: ada)
        let status = try await settled(toAda)
        try await show(toAda, status, on: [phone, tablet, shared, otherPhone])
        try expect(count(status, "accepted") == 2 && count(status, "total") == 2, "not every device of \(ada) got it")
        try await expectInbox(phone, 1)
        try await expectInbox(tablet, 1)
        try await expectInbox(shared, 0)
        try report.fact("both of \(ada)'s devices show it, each from its own environment; \(shared.name) does not: it is \(grace)'s now")

        let toGrace = try await send("Your parcel arrives today", "Between 2 and 4 pm", to: grace)
        let second = try await settled(toGrace)
        try await show(toGrace, second, on: [phone, tablet, shared, otherPhone])
        try expect(count(second, "accepted") == 2, "not every device of \(grace) got it")
        try await expectInbox(shared, 1)
        try await expectInbox(otherPhone, 1)
        try report.fact("\(grace) got hers on \(shared.name) and, once, on the reinstalled \(otherPhone.name)")
    }

    private mutating func retireAndRevive() async throws {
        try report.begin("APNs says 410: the token is retired, until the device registers again")
        try await script(phone, status: 410, reason: "Unregistered", timestamp: true)
        let firstPush = try await send("First try", "This one meets a dead token", to: ada)
        let first = try await settled(firstPush)
        try await show(firstPush, first, on: [phone, tablet])
        try expect(count(first, "token_gone") == 1 && count(first, "accepted") == 1, "the 410 was not recorded as token_gone")
        let retired = try await eventually("\(phone.name)'s token is retired") {
            try await backend.installation(phone.installation).tokens.first { !$0.isActive }
        }
        try report.fact("\(phone.name)'s token is retired: \(retired.retiredReason ?? "410")")

        let second = try await settled(try await send("Second try", "Only to the living", to: ada))
        try expect(count(second, "total") == 1 && count(second, "accepted") == 1, "the second send went to the retired token")
        try report.fact("the next notification has one delivery only")

        try await install(phone)
        try await register(phone, user: ada)
        let inbox = try await inboxCount(phone)
        let thirdPush = try await send("Welcome back", "Registered again", to: ada)
        let third = try await settled(thirdPush)
        try await show(thirdPush, third, on: [phone, tablet])
        try expect(count(third, "accepted") == 2, "the device that registered again was left out")
        try await expectInbox(phone, inbox + 1)
        try report.fact("it registered again and receives again")
    }

    private mutating func throttleAndRetry() async throws {
        try report.begin("APNs says 429: the delivery waits and arrives, the registry knows meanwhile")
        try await script(tablet, status: 429, reason: "TooManyRequests")
        let inbox = try await inboxCount(tablet)
        let push = try await send("Slow down", "This one arrives a little later", to: ada)
        let waiting = try await lastAttempt(of: push, on: tablet, is: "throttled")
        try await show(push, waiting, on: [phone, tablet])
        let until = try await backend.installation(tablet.installation).throttledUntil
        guard let until else { throw CommandFailure("the demonstration failed: the registry does not show \(tablet.name) as throttled") }
        try report.fact("the registry shows \(tablet.name) as throttled until \(until.formatted(.iso8601))")
        let status = try await settled(push)
        try await show(push, status, on: [phone, tablet])
        try expect(count(status, "accepted") == 2, "the throttled delivery did not arrive")
        try await expectInbox(tablet, inbox + 1)
        try report.fact("the retry arrived")
    }

    private mutating func logOutWhileQueued() async throws {
        try report.begin("A user logs out while a notification is still in the queue: nothing arrives")
        try await script(phone, status: 429, reason: "TooManyRequests")
        let inbox = try await inboxCount(phone)
        let push = try await send("For your eyes only", "No other user may read this", to: ada)
        _ = try await lastAttempt(of: push, on: phone, is: "throttled")
        let answer = try await backend.signOut(phone.installation, expectedUser: ada)
        try expect(answer.signedOut, "the logout was not answered as done")
        try report.fact("\(ada) logged out of \(phone.name) while the delivery waited (fence: \(answer.fence.rawValue))")
        let status = try await settled(push)
        try await show(push, status, on: [phone, tablet])
        try expect(count(status, "fenced") == 1, "the waiting delivery was not fenced")
        try await expectInbox(phone, inbox)
        try report.fact("its status says fenced, and \(phone.name)'s lock screen shows nothing new")
    }
}

extension Demonstration {
    /// Installs the app on the device in the simulated APNs.
    func install(_ device: DemoDevice) async throws {
        try await simulator.put("/v1/devices/\(device.token)") { body in
            body.field("environment", device.environment.rawValue)
            body.field("state", "installed")
            body.field("name", device.name)
        }
    }

    @discardableResult
    func register(_ device: DemoDevice, user: String) async throws -> PushAPI.Installation {
        let token = PushAPI.Token(device.token, environment: device.environment.rawValue)
        return try await backend.register(device.installation, .init(user: user, tokens: [token]))
    }

    func send(_ title: String, _ text: String, to user: String) async throws -> DemoPush {
        let calledAt = currentMilliseconds()
        let accepted = try await backend.send(.init(to: .user(user), .alert(title: title, body: text)))
        return DemoPush(id: accepted.id, calledAt: calledAt)
    }

    /// The device's next answer from the simulated APNs, once; later ones are as usual.
    func script(_ device: DemoDevice, status: Int, reason: String, timestamp: Bool = false) async throws {
        try await simulator.put("/v1/devices/\(device.token)/script") { body in
            body.array("answers") { answers in
                answers.object { answer in
                    answer.field("status", status)
                    answer.field("reason", reason)
                    if timestamp { answer.field("timestamp_ms", currentMilliseconds()) }
                }
            }
            body.field("then", "accept")
        }
    }

    func inbox(_ device: DemoDevice) async throws -> [JSONValue] {
        let answer = try await simulator.get("/v1/devices/\(device.token)/inbox")
        return answer["notifications"]?.arrayValue ?? []
    }

    func inboxCount(_ device: DemoDevice) async throws -> Int { try await inbox(device).count }

    func expectInbox(_ device: DemoDevice, _ expected: Int) async throws {
        let shown = try await inboxCount(device)
        try expect(shown == expected, "\(device.name)'s lock screen shows \(shown) notifications instead of \(expected)")
    }

    func show(_ push: DemoPush, _ status: PushAPI.NotificationStatus, on devices: [DemoDevice]) async throws {
        var screens: [(device: DemoDevice, inbox: [JSONValue])] = []
        for device in devices { screens.append((device, try await inbox(device))) }
        try report.show(push.table(status, on: screens))
    }

    /// The status document, once every delivery has its outcome.
    func settled(_ push: DemoPush) async throws -> PushAPI.NotificationStatus {
        try await eventually("notification \(push.id) is completed") {
            let status = try await backend.status(push.id)
            return status.state == .completed ? status : nil
        }
    }

    /// The status document, once the delivery to `device` waits for another attempt because of `outcome`.
    func lastAttempt(of push: DemoPush, on device: DemoDevice, is outcome: String) async throws -> PushAPI.NotificationStatus {
        try await eventually("the delivery to \(device.name) is \(outcome)") {
            let status = try await backend.status(push.id)
            let delivery = status.deliveries.first { $0.installation == device.installation }
            return delivery?.lastAttempt?.outcome == outcome ? status : nil
        }
    }

    func count(_ status: PushAPI.NotificationStatus, _ outcome: String) -> Int { status.counts[outcome] ?? 0 }

    func expect(_ condition: Bool, _ otherwise: String) throws {
        guard condition else { throw CommandFailure("the demonstration failed: \(otherwise)") }
    }

    /// Asks again, five times a second for a minute at most, until `answer` has a value: the API has no way to wait.
    func eventually<Answer>(_ what: String, _ answer: () async throws -> Answer?) async throws -> Answer {
        let clock = ContinuousClock()
        let deadline = clock.now + .seconds(60)
        while clock.now < deadline {
            if let value = try await answer() { return value }
            try await Task.sleep(for: .milliseconds(200))
        }
        throw CommandFailure("the demonstration failed: a minute passed and it is not so that \(what)")
    }
}

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

/// Prints the events in sentences, and keeps them for the summary.
struct DemoReport {
    private var steps: [(title: String, facts: Int)] = []

    mutating func begin(_ title: String) throws {
        steps.append((title, 0))
        try StandardOutput.print("\n\(steps.count). \(title)")
    }

    mutating func fact(_ text: String) throws {
        if !steps.isEmpty { steps[steps.count - 1].facts += 1 }
        try StandardOutput.print("   ✓ \(text)")
    }

    func show(_ text: some CustomStringConvertible) throws {
        for line in text.description.split(separator: "\n", omittingEmptySubsequences: false) { try StandardOutput.print("     \(line)") }
    }

    func end(_ next: String) throws {
        var table = Table("STEP", "WHAT HAPPENED", "CHECKED")
        for (index, step) in steps.enumerated() { table.add("\(index + 1)", step.title, "\(counted(step.facts, "fact", "facts")) ✓") }
        try StandardOutput.print("\n\(table)\n\nEverything happened as promised.\n\(next)")
    }
}

/// A device of the demonstration. Names for people; ids and tokens are new in every run, so that runs do not meet.
struct DemoDevice {
    let name: String
    let environment: APNsEnvironment
    /// The installation's id; of an app with PushClient, the client makes it.
    var installation = PushID.random().description
    private(set) var token = DemoDevice.newToken()

    init(_ name: String, _ environment: APNsEnvironment = .production) {
        self.name = name
        self.environment = environment
    }

    /// Gives the device a token as after a reinstall: iOS issues a new one; the installation id stays, because it is in the keychain.
    mutating func reinstall() { token = Self.newToken() }

    /// The token as iOS gives it to the app.
    var tokenBytes: Data { Data(DeviceToken(hex: token)?.bytes ?? []) }

    private static func newToken() -> String {
        hexText((0..<32).map { _ in UInt8.random(in: .min ... .max) })
    }
}

struct DemoCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo", abstract: "Show the platform doing its main job, against the APNs simulator.",
        discussion: """
            Registers users and devices, sends, and follows every delivery to the simulated lock screens: reinstalls, a shared device, a \
            dead token, a throttled device, a logout, and an app whose token comes early. Needs an administrator's key, and dispatchers \
            whose APNs is the simulator. Ends with 1 when a step did not happen.
            """)
    @OptionGroup var connection: ConnectionOptions
    @Option(help: "The simulator's control address.") var simulator = "http://127.0.0.1:2199"
    @Option(help: "The app; it must be one of the dispatcher's credentials.") var app = "shop"
    @Option(help: "The last line: what to open next. Default: the simulator's page and the API's.") var next: String?

    func run() async throws {
        let simulator = try ServiceAddress.parse(simulator, from: "--simulator")
        try await connection.withClient { admin in
            var demonstration = try await Demonstration(admin: admin, simulator: admin.other(baseURL: simulator, key: nil), app: app)
            try await demonstration.run()
            let pages = "Next, in a browser: \(simulator) shows these lock screens, \(admin.baseURL)/docs the API."
            try demonstration.report.end(next ?? pages)
        }
    }
}
