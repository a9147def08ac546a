import FoundationEssentials
import PushAPI
import PushModel
import StrictJSON

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
        try await admin.createApp(
            slug: app, bundleID: "com.example.\(app)", devicePolicy: "multi", environments: ["production", "sandbox"])
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
