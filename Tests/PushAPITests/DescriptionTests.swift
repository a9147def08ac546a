import Foundation
import PushAPI
import StrictJSON
import TestSupport
import Testing

@Suite("PushAPI and the API's description agree")
struct DescriptionTests {
    /// How PushAPI calls an operation of the description.
    struct Use: Sendable, CustomTestStringConvertible {
        typealias Call = @Sendable (PushAPI.App) async throws -> any Hashable & Sendable

        let operation: String
        /// Together they say everything that PushAPI can say. The first one's answer is read.
        let calls: [Call]

        var testDescription: String { operation }

        init(_ operation: String, _ calls: Call...) { self.init(operation, calls) }
        init(_ operation: String, _ calls: [Call]) { (self.operation, self.calls) = (operation, calls) }
    }

    private static let id = "9f4c1e1a-6d0b-4c55-8a63-0e4b5c1d2f30"
    private static let moment = Date(timeIntervalSince1970: 1_795_694_400)

    private static var registration: PushAPI.Registration {
        var registration = PushAPI.Registration(
            user: "ada", tokens: [.init("0a1b"), .init("0a1b", environment: "sandbox", purpose: "voip")])
        registration.keeps = ["location"]
        registration.replaces = "0a1b"
        registration.profile.locale = "de_DE"
        registration.profile.timeZone = "Europe/Berlin"
        registration.profile.appVersion = "1"
        registration.profile.osVersion = "27.0"
        registration.profile.deviceModel = "iPhone"
        registration.profile.permission = "authorized"
        registration.profile.appTags = ["beta"]
        return registration
    }

    private static func change(_ field: PushAPI.Change.Field) -> PushAPI.Change {
        var change = PushAPI.Change()
        (change.user, change.locale, change.timeZone, change.appVersion, change.osVersion) = (field, field, field, field, field)
        change.deviceModel = field
        change.permission = field == .removed ? field : .value("denied")
        change.tokens = [.init("0a1b")]
        change.keeps = ["location"]
        change.appTags = ["beta"]
        change.replaces = "0a1b"
        return change
    }

    /// Everything that the description's `Content` has.
    private static var content: PushAPI.Content {
        get throws {
            let description = try APIDescription.committed()
            let schema = try #require(description.schema("Content"))
            return .content(try PushAPI.JSON(bytes: SchemaExample(.whole, in: description).json(of: schema)))
        }
    }

    private static func notification(_ target: PushAPI.Target = .user("ada")) throws -> PushAPI.NewNotification {
        var notification = PushAPI.NewNotification(to: target, try content)
        notification.locales = ["de": try content, "fr": .payload(["aps": ["alert": "Salut"]])]
        notification.pushType = "alert"
        notification.activity = "ride"
        notification.priority = 10
        notification.collapseID = "c"
        notification.notBefore = moment
        notification.localTime = "2026-11-22T09:00"
        notification.expiresAt = moment
        notification.timeToLive = .seconds(60)
        notification.apnsExpiration = 0
        notification.isUrgent = true
        notification.lane = "soon"
        notification.supersedeKey = "s"
        notification.receipts = "failures"
        notification.deviceReceipts = true
        notification.onUnknown = "resend_once"
        return notification
    }

    private static func broadcast(_ content: PushAPI.Content) -> PushAPI.NewBroadcast {
        var broadcast = PushAPI.NewBroadcast(content)
        broadcast.includesActivities = true
        broadcast.priority = 5
        broadcast.expiresAt = moment
        broadcast.timeToLive = .seconds(60)
        broadcast.apnsExpiration = 0
        broadcast.lane = "soon"
        broadcast.receipts = "failures"
        broadcast.onUnknown = "drop"
        return broadcast
    }

    /// To each target, and of each kind of content.
    private static var notifications: [PushAPI.NewNotification] {
        get throws {
            let targets: [PushAPI.Target] = [
                .user("ada"), .users(["ada"]), .installation(id), .installations([id]), .tokens(["0a1b"]), .tags("beta AND NOT muted"),
                .all,
                .activity("ride", of: "ada"), .activityOfInstallation(id, id: "ride"), .activityOfUser("ada", type: "Ride"),
            ]
            let contents: [PushAPI.Content] = [.payload(["aps": ["alert": "Hello"]]), .alert(title: "t", body: "b")]
            return try targets.map { try notification($0) } + contents.map { .init(to: .all, $0) }
        }
    }

    /// A call with each of them.
    private static func each<Result: Hashable & Sendable>(
        _ call: @escaping @Sendable (PushAPI.App, PushAPI.NewNotification) async throws -> Result
    ) -> [Use.Call] {
        let count = (try? notifications.count) ?? 0
        return (0..<count).map { index in { try await call($0, try notifications[index]) } }
    }

    static let uses: [Use] = [
        Use(
            "registerInstallation", { try await $0.register(id, registration, expected: .user("ada")) },
            { try await $0.register(id, .init(user: nil, tokens: []), expected: .nobody, ifMatch: "\"1\"") }),
        Use("readInstallation", { try await $0.installation(id) }),
        Use(
            "changeInstallation", { try await $0.change(id, change(.value("text")), expected: .user("ada"), ifMatch: "\"1\"") },
            { try await $0.change(id, change(.removed), expected: .nobody) }),
        Use("setInstallationTags", { try await $0.setTags(id, ["beta"], ifMatch: "\"1\"") }),
        Use("logOutInstallation", { try await $0.signOut(id, expectedUser: "ada") }, { try await $0.signOut(id) }),
        Use("logOutUser", { try await $0.signOutEverywhere(user: "ada", except: id) }, { try await $0.signOutEverywhere(user: "a/b") }),
        Use(
            "deregisterInstallation",
            {
                try await $0.deregister(id, expectedUser: "ada")
                return true
            }),
        Use(
            "makeDeviceCredential", { try await $0.deviceCredential(installation: id, user: "ada", lifetime: .seconds(60)) },
            { try await $0.deviceCredential(installation: id, user: nil) }),
        Use("sendNotification", each { try await $0.send($1) }),
        Use("validateNotification", each { try await $0.validate($1) }),
        Use("sendNotifications", { try await $0.send(try notifications.map { .init($0) }) }),
        Use("readNotification", { try await $0.status(id) }),
        Use("cancelNotification", { try await $0.cancel(id) }),
        Use("explainNotification", { try await $0.why(id, user: "ada") }),
        Use(
            "listDeliveries",
            { app in
                var deliveries: [PushAPI.Delivery] = []
                for try await delivery in app.deliveries(of: id, state: "accepted", reason: "Unregistered", installation: id) {
                    deliveries.append(delivery)
                }
                return deliveries
            }),
        Use(
            "openChannel", { try await $0.openChannel("c", storage: .none) }, { try await $0.openChannel("a/b", storage: .latest) },
            { try await $0.adoptChannel("c", environment: "sandbox", id: "AA==") }),
        Use(
            "broadcast", { try await $0.broadcast(broadcast(try content), to: "c") },
            { try await $0.broadcast(broadcast(.payload(["aps": ["event": "update"]])), to: "c", idempotencyKey: "k") }),
        Use("readChannel", { try await $0.channel("c") }),
        Use(
            "listChannels", { try await $0.channels(limit: 1) },
            { try await $0.channels(state: .foreign, environment: "sandbox", limit: 1, cursor: "a/b") }),
        Use("deleteChannel", { try await $0.deleteChannel("c", force: true) }, { try await $0.deleteChannel("c") }),
        Use("deleteForeignChannel", { try await $0.deleteForeignChannel(id: "AA==") }),
    ]

    // MARK: What is left out, and why

    private static let named = "the caller named it"
    private static let wholeTokens = "PushAPI never asks for whole tokens"
    private static let stated = "the sender stated it, or left it to the service"

    /// Fields of answers that PushAPI does not read.
    private static let unread = [
        "registerInstallation/app": named, "readInstallation/app": named, "changeInstallation/app": named, "setInstallationTags/app": named,
        "logOutInstallation/id": named, "sendNotification/app": named, "sendNotifications/results/app": named, "broadcast/app": named,
        "readNotification/app": named, "explainNotification/app": named, "explainNotification/id": named, "explainNotification/user": named,
        "validateNotification/bundle_id": named, "validateNotification/collapse_id": stated, "validateNotification/supersede_key": stated,
        "readNotification/to": stated, "readNotification/receipts": stated, "listDeliveries/receipts": stated,
        "explainNotification/receipts": stated, "explainNotification/steps/detail": "the sentence beside it says it",
        "sendNotifications/results/type": "it is the code with a prefix", "sendNotifications/results/title": "the detail says more",
        "listDeliveries/next_cursor": "without it the list is over",
        "registerInstallation/tokens/token": wholeTokens, "readInstallation/tokens/token": wholeTokens,
        "changeInstallation/tokens/token": wholeTokens, "setInstallationTags/tokens/token": wholeTokens,
        "readNotification/deliveries/token": wholeTokens, "listDeliveries/deliveries/token": wholeTokens,
    ]

    /// What is nil although the answer has every field.
    private static let unset = [
        "readInstallation/warnings": "those of a change", "sendNotification/replay": "of an item of a batch",
        "broadcast/replay": "of an item of a batch", "sendNotifications/failure/refused/call": "the call was not refused",
        "sendNotifications/failure/refused/retryAfter": "a header of the whole call",
    ]

    // MARK: Tests

    @Test("A request is what the description says, and PushAPI can say everything that it describes", arguments: uses)
    func requests(use: Use) async throws {
        let description = try APIDescription.committed()
        let operation = try Self.operation(use)
        let answer = try #require(description.answers(of: operation).first)
        var written: Set<String> = []
        for call in use.calls {
            for request in try await Self.call(call, answer, SchemaExample(.whole, in: description)).requests {
                #expect(description.operation(request.method, request.target)?.id == use.operation)
                let check = description.check(request)
                #expect(check.faults == [], "\(request.body)")
                written.formUnion(check.fields)
            }
        }
        let described = description.body(of: operation).map(description.fields) ?? []
        #expect(described.subtracting(written) == [])
    }

    @Test("PushAPI reads every answer that the description allows, and every field of it", arguments: uses)
    func answers(use: Use) async throws {
        let description = try APIDescription.committed()
        let call = try #require(use.calls.first)
        for answer in description.answers(of: try Self.operation(use)) {
            let whole = SchemaExample(.whole, in: description)
            let result = try await Self.call(call, answer, whole).result
            _ = try await Self.call(call, answer, SchemaExample(.required, in: description))
            guard let schema = answer.schema else { continue }
            #expect(Self.unset(result) == Self.names(in: Self.unset, use))
            for choice in 1..<max(2, description.mostWords(of: schema)) {
                _ = try await Self.call(call, answer, SchemaExample(.whole, in: description, choice: choice))
            }
            var unread: Set<String> = []
            for field in description.fields(of: schema).sorted() where !unread.contains(where: { field.hasPrefix($0 + "/") }) {
                var example = whole
                example.omitted = field
                // Without a field that it needs, it throws.
                guard let less = try? await Self.call(call, answer, example).result else { continue }
                if AnyHashable(less) == AnyHashable(result) { unread.insert(field) }
            }
            #expect(unread == Self.names(in: Self.unread, use))
        }
    }

    @Test("A problem is read as it is described") func problem() async throws {
        let description = try APIDescription.committed()
        let schema = try #require(description.schema("Problem"))
        let text = String(decoding: SchemaExample(.whole, in: description).json(of: schema), as: UTF8.self)
        try await ScriptedServer.run([.answer(409, text, headers: [("Retry-After", "1")])]) { _, url in
            let error = await #expect(throws: PushAPIError.self) {
                try await PushAPI.test(url).once(.init(.get, "/v1/key")).accepted()
            }
            guard case .refused(let problem)? = error else { return }
            #expect(Self.unset(problem) == [] && !problem.description.contains("?"), "\(problem)")
        }
    }

    // MARK: Support

    /// The fields of a list that an operation has.
    private static func names(in list: [String: String], _ use: Use) -> Set<String> {
        Set(list.keys.filter { $0.hasPrefix(use.operation + "/") }.map { String($0.dropFirst(use.operation.count)) })
    }

    private static func operation(_ use: Use) throws -> APIDescription.Operation {
        try #require(APIDescription.committed().operations.first { $0.id == use.operation }, "no operation \(use.operation)")
    }

    /// Makes a call. The first answer is `example`; one to a call for the next page has what is required.
    private static func call(
        _ call: Use.Call, _ answer: APIDescription.Answer, _ example: SchemaExample
    ) async throws -> (result: any Hashable & Sendable, requests: [ScriptedServer.Request]) {
        let required = SchemaExample(.required, in: try APIDescription.committed())
        let script = [example, required].map { example in
            ScriptedServer.Reply.answer(
                answer.status, example.body(of: answer), headers: answer.headers.map { ($0, "\"1\"") })
        }
        return try await ScriptedServer.run(script) { server, url in
            (try await call(PushAPI.test(url).app("shop")), server.requests)
        }
    }

    /// The names of what is nil in a value.
    private static func unset(_ value: Any, _ name: String = "") -> Set<String> {
        let mirror = Mirror(reflecting: value)
        if mirror.displayStyle == .optional {
            guard let value = mirror.children.first?.value else { return [name] }
            return unset(value, name)
        }
        return mirror.children.reduce(into: []) { all, child in
            all.formUnion(unset(child.value, child.label.map { $0.hasPrefix(".") ? name : "\(name)/\($0)" } ?? name))
        }
    }
}
