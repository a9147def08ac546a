import PushModel
import StrictJSON

/// The main use case, step by step, through the public API alone. Every step checks its claim and throws if it does not hold.
struct Demonstration {
    let admin: APIClient
    let backend: APIClient
    let simulator: APIClient
    let app: String
    let ada: String
    let grace: String
    var report = DemoReport()

    var phone = DemoDevice("Ada's iPhone")
    let tablet = DemoDevice("Ada's iPad (sandbox)", .sandbox)
    let shared = DemoDevice("the family iPad")
    var otherPhone = DemoDevice("Grace's iPhone")

    /// Makes the app, and a key with the rights of a backend team and a product service.
    init(admin: APIClient, simulator: APIClient, app: String) async throws {
        self.admin = admin
        self.simulator = simulator
        self.app = app
        try await admin.createApp(
            slug: app, bundleID: "com.example.\(app)", devicePolicy: "multi", environments: ["production", "sandbox"])
        let created = try await admin.post("/v1/admin/keys") { body in
            body.field("app", app)
            body.field("name", "demonstration")
            body.field("scopes", ["devices", "send", "read"])
        }
        guard let key = created["key"]?.stringValue else { throw CommandFailure("the token service made a key but did not show it") }
        backend = admin.with(key: key)
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
        let epochs = (before["owner_epoch"]?.integerValue ?? 0, after["owner_epoch"]?.integerValue ?? 0)
        try expect(after["user"]?.stringValue == grace && epochs.1 > epochs.0, "\(shared.name) did not change hands")
        try report.fact("\(shared.name) changed hands from \(ada) to \(grace): owner epoch \(epochs.0) → \(epochs.1)")

        try await register(otherPhone, user: grace)
        let oldToken = otherPhone.token
        otherPhone.reinstall()
        try await install(otherPhone)
        let record = try await register(otherPhone, user: grace)
        let states = (record["tokens"]?.arrayValue ?? []).map { ($0["hint"]?.stringValue ?? "", $0["state"]?.stringValue ?? "") }
        try expect(
            states.contains { $0.1 == "active" && otherPhone.token.hasSuffix($0.0.suffix(6)) }
                && !states.contains { $0.1 == "active" && oldToken.hasSuffix($0.0.suffix(6)) },
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
        let record = try await eventually("\(phone.name)'s token is retired") {
            let record = try await backend.get(path(phone))
            return record["tokens"]?[0]?["state"]?.stringValue == "retired" ? record : nil
        }
        try report.fact("\(phone.name)'s token is retired: \(record["tokens"]?[0]?["retired_reason"]?.stringValue ?? "410")")

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
        let record = try await backend.get(path(tablet))
        try expect(record["throttled_until"]?.stringValue != nil, "the registry does not show \(tablet.name) as throttled")
        try report.fact("the registry shows \(tablet.name) as throttled until \(record["throttled_until"]?.stringValue ?? "?")")
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
        let answer = try await backend.post(path(phone) + "/logout") { _ in }
        try expect(answer["signed_out"]?.boolValue == true, "the logout was not answered as done")
        try report.fact("\(ada) logged out of \(phone.name) while the delivery waited (fence: \(answer["fence"]?.stringValue ?? "?"))")
        let status = try await settled(push)
        try await show(push, status, on: [phone, tablet])
        try expect(count(status, "fenced") == 1, "the waiting delivery was not fenced")
        try await expectInbox(phone, inbox)
        try report.fact("its status says fenced, and \(phone.name)'s lock screen shows nothing new")
    }
}
