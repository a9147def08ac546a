import Foundation
import TestDevice
import TestSupport
import Testing

@testable import PushClient

/// The client over a transport that a test holds: threads, stores and time are its own.
@Suite struct PushClientTests {
    static let token = Data((0..<32).map { UInt8($0) })

    final class App: Sendable {
        let server: FakeServer
        let clock = TestClock()
        let store: any PushStore
        let inbox = PushInbox()

        init(needsCredential: Bool = false, store: any PushStore = MemoryStore()) {
            server = FakeServer(needsCredential: needsCredential)
            self.store = store
        }

        func client(_ inbox: PushInbox? = nil) -> PushClient {
            let needsCredential = server.with { $0.model.needsCredential }
            let configuration = PushConfiguration(
                app: "shop", environment: .sandbox, server: needsCredential ? .tokenService(server, credentials: server) : .backend(server),
                store: store)
            return PushClient(configuration, inbox: inbox ?? self.inbox, clock: clock, random: { 0.5 })
        }

        /// Ada is signed in, and the server knows it.
        func clientOfAda() async -> PushClient {
            inbox.put(.token(PushClientTests.token, purpose: .alert))
            let client = client()
            client.signIn(as: "ada")
            await client.settled()
            return client
        }
    }

    /// What can happen around a launch. Each order of these must end with the token at the server, under the user's name.
    enum Step: CaseIterable {
        case tokenArrives, clientIsMade, userSignsIn, networkComesBack, appIsKilled
    }

    static let orders: [[Step]] = {
        func permutations(_ steps: [Step]) -> [[Step]] {
            guard steps.count > 1 else { return [steps] }
            return steps.indices.flatMap { index in
                var rest = steps
                let first = rest.remove(at: index)
                return permutations(rest).map { [first] + $0 }
            }
        }
        return permutations(Step.allCases)
    }()

    /// A process: an inbox, and a client once the app makes one. The store and the server outlive it.
    private struct Process {
        let app: App
        var inbox = PushInbox()
        var client: PushClient?
        /// The app's own session store.
        var session: String?

        func made() -> PushClient { app.client(inbox) }
    }

    @Test(arguments: [false, true])
    func everyOrderOfALaunchRegistersTheToken(needsCredential: Bool) async {
        for order in Self.orders {
            let app = App(needsCredential: needsCredential)
            app.server.with { $0.isOffline = true }
            var process = Process(app: app)
            for step in order {
                switch step {
                case .tokenArrives: process.inbox.put(.token(Self.token, purpose: .alert))
                case .clientIsMade:
                    let client = process.made()
                    if let user = process.session { client.signIn(as: user) }
                    process.client = client
                case .userSignsIn:
                    process.session = "ada"
                    process.client?.signIn(as: "ada")
                case .networkComesBack:
                    app.server.with { $0.isOffline = false }
                    process.client?.retryNow()
                case .appIsKilled:
                    await process.client?.settled()
                    let wasMade = process.client != nil
                    let hadToken = order.firstIndex(of: .tokenArrives).map { $0 < (order.firstIndex(of: .appIsKilled) ?? 0) } == true
                    process = Process(app: app, session: process.session)
                    // The next launch repeats what the app does at each launch.
                    if wasMade { process.client = process.made() }
                    if hadToken { process.inbox.put(.token(Self.token, purpose: .alert)) }
                }
                await process.client?.settled()
            }
            let client = process.client
            client?.retryNow()
            await client?.settled()
            let row = client.flatMap { app.server.row($0) }
            #expect(row?.owner == "ada", "\(order)")
            #expect(row?.tokens == [PushToken(Self.token, purpose: .alert, environment: .sandbox)], "\(order)")
            #expect(client?.status?.isUploaded == true, "\(order)")
            #expect(app.server.with { $0.mostInFlight } <= 1)
        }
        #expect(Self.orders.count == 120)
    }

    /// A backend that forwards takes no request without a session, and with one that is over only the sign-out of its own user. The app has
    /// the former sessions or not.
    private final class Sessions: PushTransport {
        struct Session {
            let user: String
            var isOver = false
        }

        let server: FakeServer
        let tokens = Guarded((present: Session?(Session(user: "ada")), former: [Session]()))
        /// The first opens when the server has done a registration, and the answer waits for the second.
        let hold = Guarded((isDone: Gate, answer: Gate)?.none)

        init(_ server: FakeServer) { self.server = server }

        /// The app ends the session at its backend, and keeps it or not.
        func leave(isKept: Bool) {
            tokens.withLock { tokens in
                guard var session = tokens.present else { return }
                session.isOver = true
                tokens = (nil, tokens.former + (isKept ? [session] : []))
            }
        }

        func send(_ request: PushRequest) async throws -> PushResponse {
            let (present, former) = tokens.withLock { $0 }
            let session =
                switch request.operation {
                case .signOut, .deregister: former.last { $0.user == request.expectedUser } ?? present ?? former.last
                case .register, .change, .reportActivity, .endActivity, .receipts: present
                }
            let isTaken = session.map { !$0.isOver || $0.user == request.expectedUser } ?? false
            guard isTaken || server.with({ $0.isOffline }) else { return PushResponse(status: 401) }
            let answer = try await server.send(request)
            if request.operation == .register, let hold = hold.withLock({ $0 }) {
                hold.isDone.open()
                try await hold.answer.wait()
            }
            return answer
        }

        /// As `Forwarding.heard(_:)` of the example.
        func heard(_ notice: PushNotice) {
            tokens.withLock { tokens in
                switch notice {
                case .signedOut, .deregistered, .registered(user: nil): tokens.former = []
                case .registered(let user?): tokens.former = tokens.former.filter { $0.user == user }
                default: break
                }
            }
        }

        func client(of app: App, _ inbox: PushInbox = PushInbox()) -> PushClient {
            let configuration = PushConfiguration(app: "shop", environment: .sandbox, server: .backend(self), store: app.store)
            let client = PushClient(configuration, inbox: inbox, clock: app.clock, random: { 0.5 })
            client.onNotice { self.heard($0) }
            return client
        }
    }

    @Test(arguments: [false, true])
    func aSignOutWithoutNetworkNeedsTheSessionThatItsUserHad(isKept: Bool) async {
        let app = App()
        let sessions = Sessions(app.server)
        _ = await app.clientOfAda()
        app.server.with { $0.isOffline = true }
        var client = sessions.client(of: app)
        sessions.leave(isKept: isKept)
        client.signOut()
        await client.settled()
        app.server.with { $0.isOffline = false }
        client = sessions.client(of: app)
        await client.settled()
        #expect(app.server.row(client)?.owner == (isKept ? nil : "ada"))
        #expect(sessions.tokens.withLock { $0.former.isEmpty })
    }

    /// A phone that two people share, while the platform is down, or without network.
    @Test(arguments: [false, true])
    func aSignOutThatWaitsKeepsItsSessionWhenTheNextUserLeaves(isOffline: Bool) async {
        let app = App()
        let sessions = Sessions(app.server)
        _ = await app.clientOfAda()
        if isOffline {
            app.server.with { $0.isOffline = true }
        } else {
            app.server.with { $0.answers = [PushResponse(status: 503, headers: ["Retry-After": "60"])] }
        }
        var client = sessions.client(of: app)
        sessions.leave(isKept: true)
        client.signOut()
        await client.settled()
        sessions.tokens.withLock { $0.present = Sessions.Session(user: "bob") }
        client.signIn(as: "bob")
        await client.settled()
        sessions.leave(isKept: true)
        client.signOut()
        await client.settled()
        #expect(app.server.row(client)?.owner == "ada")
        app.server.with { $0.isOffline = false }
        client = sessions.client(of: app)
        await client.settled()
        #expect(app.server.row(client)?.owner == nil)
        #expect(sessions.tokens.withLock { $0.former.isEmpty })
    }

    /// Ada's registration is answered after she has left and Bob has come, and before any request of his.
    @Test func aLateAnswerForgetsNotTheSessionOfTheUserWhomItRegistered() async throws {
        let app = App()
        let sessions = Sessions(app.server)
        let (isDone, answer, inbox) = (Gate(), Gate(), PushInbox())
        sessions.hold.withLock { $0 = (isDone, answer) }
        var client = sessions.client(of: app, inbox)
        client.signIn(as: "ada")
        inbox.put(.token(Self.token, purpose: .alert))
        try await isDone.wait()
        sessions.leave(isKept: true)
        client.signOut()
        sessions.tokens.withLock { $0.present = Sessions.Session(user: "bob") }
        client.signIn(as: "bob")
        app.server.with { $0.isOffline = true }
        answer.open()
        await client.settled()
        #expect(app.server.row(client)?.owner == "ada")
        sessions.leave(isKept: true)
        client.signOut()
        await client.settled()
        app.server.with { $0.isOffline = false }
        client = sessions.client(of: app)
        await client.settled()
        #expect(app.server.row(client)?.owner == nil)
    }

    /// Three people share a phone without network, and the app has lost the session of the second.
    @Test func aSessionThatIsMissingHoldsNoOtherSignOutUp() async {
        let app = App()
        let sessions = Sessions(app.server)
        _ = await app.clientOfAda()
        app.server.with { $0.isOffline = true }
        let inbox = PushInbox()
        inbox.put(.token(Self.token, purpose: .alert))
        var client = sessions.client(of: app, inbox)
        for (user, next) in [("ada", "bob"), ("bob", "carol"), ("carol", nil)] {
            client.signIn(as: user)
            await client.settled()
            sessions.leave(isKept: user != "bob")
            client.signOut()
            await client.settled()
            sessions.tokens.withLock { $0.present = next.map { Sessions.Session(user: $0) } }
        }
        app.server.with { $0.isOffline = false }
        client = sessions.client(of: app)
        await client.settled()
        #expect(app.server.row(client)?.owner == nil)
    }

    /// A backend that gives none of the former user, as `Session.post(_:_:)` of the example reads its answer.
    private struct Backend: CredentialSource {
        let server: FakeServer
        let status: Guarded<Int?>

        func credential(installation: UUID, user: String?) async throws -> DeviceCredential? {
            switch user == nil ? nil : status.withLock({ $0 }) {
            case nil: return try await server.credential(installation: installation, user: user)
            case 204, .some(300..<400), 401, 403: return nil
            default: throw FakeServer.Offline()
            }
        }
    }

    @Test(arguments: [204, 302, 401, 403, 500])
    func aBackendThatGivesNoCredentialOfAFormerUserHoldsNoSignOutUp(status: Int) async {
        let app = App(needsCredential: true)
        let backend = Backend(server: app.server, status: Guarded(nil))
        app.inbox.put(.token(Self.token, purpose: .alert))
        let client = PushClient(
            PushConfiguration(
                app: "shop", environment: .sandbox, server: .tokenService(app.server, credentials: backend), store: app.store),
            inbox: app.inbox, clock: app.clock, random: { 0.5 })
        client.signIn(as: "ada")
        await client.settled()
        #expect(app.server.row(client)?.owner == "ada")
        backend.status.withLock { $0 = status }
        app.server.with { $0.answers = [PushResponse(status: 401, body: Data(#"{"code":"unauthenticated"}"#.utf8))] }
        client.signOut()
        await client.settled()
        #expect(app.server.row(client)?.owner == (status == 500 ? "ada" : nil))
    }

    @Test func aSignOutWithoutNetworkSurvivesAKill() async throws {
        let app = App()
        app.inbox.put(.token(Self.token, purpose: .alert))
        var client: PushClient? = app.client()
        client?.signIn(as: "ada")
        await client?.settled()
        let installation = try #require(client?.status?.installation)
        app.server.with { $0.isOffline = true }
        client?.signOut()
        #expect(client?.status?.user == nil)
        await client?.settled()
        client = nil
        #expect(app.server.with { $0.model.rows[installation]?.owner } == "ada")

        app.server.with { $0.isOffline = false }
        // No token has come in this launch: the sign-out does not wait for one.
        let next = app.client()
        await next.settled()
        #expect(next.status?.installation == installation)
        #expect(app.server.with { $0.model.rows[installation]?.owner } == nil)
        let request = try #require(app.server.requests.last { $0.operation == .signOut })
        #expect(request.body == Data(#"{"expected_user":"ada"}"#.utf8))
    }

    @Test func whatCouldNotBeWrittenIsWrittenWithTheNextChangeAndNothingLeavesBefore() async throws {
        let store = MemoryStore()
        let app = App(store: store)
        let client = await app.clientOfAda()
        let requests = app.server.requests.count

        store.isFull = true
        client.signOut()
        let receipt = PushReceipt(source: PushSource(notification: UUID(), job: 0), event: .shown, at: Date())
        #expect(!client.add([receipt]))
        #expect(app.server.requests.count == requests)
        func stored() throws -> RegistrationRecord {
            try JSONDecoder().decode(RegistrationRecord.self, from: try #require(try store.read(.record)))
        }
        #expect(try stored().desired.presence == .signedIn("ada"))
        store.isFull = false
        // Changes nothing itself.
        #expect(client.add([receipt]))
        #expect(try stored().desired.presence == .signedOut && stored().receipts.pending == [receipt])
    }

    @Test func noTokenIsStored() async throws {
        let store = MemoryStore()
        let app = App(store: store)
        _ = await app.clientOfAda()
        let hex = PushToken(Self.token, purpose: .alert, environment: .sandbox).hex
        for item in PushStoreItem.allCases {
            let text = try store.read(item).map { String(decoding: $0, as: UTF8.self) } ?? ""
            #expect(!text.contains(hex))
        }
    }

    @Test func aLockedKeychainIsNoNewDevice() async throws {
        let keychain = MemoryStore()
        let app = App(store: SplitPushStore(secrets: keychain, rest: MemoryStore()))
        let first = app.client()
        let installation = try #require(first.status?.installation)
        await first.settled()

        keychain.isLocked = true
        let inbox = PushInbox()
        inbox.put(.token(Self.token, purpose: .alert))
        let configuration = first.configuration
        let client = PushClient(configuration, inbox: inbox, clock: app.clock)
        client.signIn(as: "ada")
        #expect(client.status == nil)
        keychain.isLocked = false
        client.retryNow()
        await client.settled()
        #expect(client.status?.installation == installation)
        #expect(app.server.row(client)?.owner == "ada")
        #expect(app.server.row(client)?.tokens.count == 1)
    }

    /// A push starts an activity while the device is locked since its restart: iOS launches the app, and the keychain cannot be read.
    @Test func activitiesOfALaunchBeforeTheFirstUnlockAreReportedAfterIt() async throws {
        let keychain = MemoryStore()
        let app = App(store: SplitPushStore(secrets: keychain, rest: MemoryStore()))
        let first = await app.clientOfAda()
        app.inbox.put(.activityToken(Data([1]), activity: "ride-1", type: "Ride"))
        await first.settled()
        #expect(app.server.row(first)?.activities == ["ride-1": "01"])

        keychain.isLocked = true
        let inbox = PushInbox()
        inbox.put(.token(Self.token, purpose: .alert))
        inbox.put(.activityToken(Data([2]), activity: "ride-2", type: "Ride"))
        // The first has ended meanwhile.
        inbox.put(.activities(["ride-2": "ride-2"], type: "Ride", age: .seconds(10)))
        let client = PushClient(first.configuration, inbox: inbox, clock: app.clock)
        #expect(client.status == nil)
        keychain.isLocked = false
        client.retryNow()
        await client.settled()
        #expect(app.server.row(client)?.activities == ["ride-2": "02"])
        #expect(app.server.row(client)?.owner == "ada" && client.status?.isUploaded == true)
    }

    @Test func aChangeOfTheProfileMayCallTheClient() async {
        let app = App()
        let client = await app.clientOfAda()
        client.updateProfile { profile in
            profile.appTags = [client.status?.user ?? ""]
            client.signOut()
        }
        await client.settled()
        #expect(client.status?.profile.appTags == ["ada"] && client.status?.user == nil)
        #expect(app.server.row(client)?.profile.appTags == ["ada"])
    }

    @Test func aChangeThatWasOvertakenRunsAgainOnTheNewerProfile() async {
        let client = await App().clientOfAda()
        let runs = Guarded(0)
        client.updateProfile { profile in
            runs.withLock { $0 += 1 }
            client.updateProfile { $0.locale = "de_DE" }
            profile.appTags = ["football"]
        }
        #expect(client.status?.profile == PushProfile(appTags: ["football"], locale: "de_DE"))
        #expect(runs.withLock { $0 } == 2)
    }

    @Test func changesFromBeforeTheFirstUnlockRunInOrderAndMayCallTheClient() async throws {
        let keychain = MemoryStore()
        let app = App(store: SplitPushStore(secrets: keychain, rest: MemoryStore()))
        let first = await app.clientOfAda()
        first.updateProfile { $0.appTags = ["stored"] }
        await first.settled()
        let requests = app.server.requests.count

        keychain.isLocked = true
        let inbox = PushInbox()
        inbox.put(.token(Self.token, purpose: .alert))
        let client = PushClient(first.configuration, inbox: inbox, clock: app.clock)
        let users = Guarded([String?]())
        client.updateProfile { profile in
            profile.appTags.append("\(client.status == nil)")
            client.signIn(as: "grace")
            client.updateProfile { $0.appTags.append("inner") }
        }
        client.updateProfile { $0.appTags.append("second") }
        client.onNotice { notice in if case .registered(let user) = notice { users.withLock { $0.append(user) } } }
        #expect(client.status == nil)
        keychain.isLocked = false
        client.retryNow()
        await client.settled()
        #expect(app.server.row(client)?.profile.appTags == ["stored", "true", "second", "inner"])
        #expect(users.withLock { $0 } == ["grace"])
        #expect(app.server.requests.dropFirst(requests).map(\.operation) == [.change, .register])
    }

    /// What a test gives in place of the system's random numbers is the app's code, too.
    @Test func theSourceOfRandomNumbersMayCallTheClient() async {
        let app = App()
        let known = Guarded<PushClient?>(nil)
        let client = PushClient(
            PushConfiguration(app: "shop", environment: .sandbox, server: .backend(app.server), store: app.store), inbox: app.inbox,
            clock: app.clock
        ) {
            known.withLock { $0 }?.status == nil ? 0.5 : 0.25
        }
        known.withLock { $0 = client }
        client.signIn(as: "ada")
        #expect(client.status?.user == "ada")
        known.withLock { $0 = nil }
    }

    @Test func typesOfTheSameShortNameAreToldApart() async {
        let app = App()
        let client = await app.clientOfAda()
        app.inbox.put(.activityToken(Data([1]), activity: "ride", type: "Attributes", fullType: "Shop.Ride.Attributes"))
        app.inbox.put(.activities([:], type: "Shop.Match.Attributes", age: .seconds(10)))
        await client.settled()
        #expect(app.server.row(client)?.activities == ["ride": "01"])
        let body = app.server.requests.last { $0.operation == .reportActivity }?.body ?? Data()
        #expect(String(decoding: body, as: UTF8.self).contains(#""attributes_type":"Attributes""#))
        app.inbox.put(.activities([:], type: "Shop.Ride.Attributes", age: .seconds(10)))
        await client.settled()
        #expect(app.server.row(client)?.activities == [:])
    }

    @Test func retriesGrowLongerUntilTheServerHasIt() async {
        let app = App()
        app.server.with { $0.isOffline = true }
        app.inbox.put(.token(Self.token, purpose: .alert))
        let client = app.client()
        client.signIn(as: "ada")
        for _ in 0..<4 {
            await client.settled()
            await app.clock.sleepers(1)
            app.clock.advance(by: .seconds(900))
        }
        app.server.with { $0.isOffline = false }
        client.retryNow()
        await client.settled()
        #expect(app.server.row(client)?.owner == "ada")
    }

    @Test func aSilentTransportCountsAsLost() async {
        let app = App()
        let hung = HungTransport()
        let configuration = PushConfiguration(app: "shop", environment: .sandbox, server: .backend(hung), store: app.store)
        let inbox = PushInbox()
        inbox.put(.token(Self.token, purpose: .alert))
        let client = PushClient(configuration, inbox: inbox, clock: app.clock, random: { 0.5 })
        await hung.calls(1)
        await app.clock.sleepers(1)
        app.clock.advance(by: .seconds(60))
        await client.settled()
        client.retryNow()
        await hung.calls(2)
    }

    @Test func tapsWaitForTheirHandlers() async throws {
        let app = App()
        let order = try PushNotification(
            json: Data(#"{"aps":{"category":"ORDER"},"push-receipt":{"notification":"\#(UUID().uuidString)","job":0}}"#.utf8))
        let other = try PushNotification(json: Data(#"{"aps":{}}"#.utf8))
        app.inbox.put(.tap(PushTap(notification: order, action: .custom("PAY"))))
        app.inbox.put(.tap(PushTap(notification: other, action: .open)))
        let client = app.client()
        let seen = AsyncStream<String>.makeStream()
        client.onTap(
            PushRoutes(["ORDER": { tap in seen.continuation.yield("order \(tap.action)") }]) { tap in
                seen.continuation.yield("other \(tap.action)")
            })
        app.inbox.put(.tap(PushTap(notification: order, action: .dismiss)))
        #expect(await seen.stream.prefix(3).reduce(into: []) { $0.append($1) } == [#"order custom("PAY")"#, "other open", "order dismiss"])
        #expect(client.status?.pendingReceipts == 2)
    }

    /// Such as one that UI tests run: the app starts, and the notice says why the device does not register.
    @Test func aBuildWithoutTheEntitlementRegistersNothing() async {
        let app = App()
        app.inbox.put(.token(Self.token, purpose: .alert))
        let client = PushClient(
            PushConfiguration(app: "shop", environment: nil, server: .backend(app.server), store: app.store), inbox: app.inbox,
            clock: app.clock)
        let seen = Guarded([PushNotice]())
        client.onNotice { notice in seen.withLock { $0.append(notice) } }
        client.signIn(as: "ada")
        await client.settled()
        #expect(seen.withLock { $0 } == [.tokenFailed(purpose: .alert, message: PushEnvironment.NoEntitlement().description)])
        #expect(app.server.requests.isEmpty)
    }

    /// 64 bytes are the API's limit.
    @Test(arguments: [
        ("en_US@calendar=islamic-umalqura;numbers=arab;currency=USD;rg=sazzzz", "en_US"), ("zh_Hant_TW", "zh_Hant_TW"), ("de-DE", "de-DE"),
    ]) func aLocaleWithKeywordsFitsTheAPI(identifier: String, expected: String) {
        var profile = PushProfile()
        profile.refresh(locale: Locale(identifier: identifier))
        #expect(profile.locale == expected)
    }

    @Test func failuresWaitForTheirHandler() {
        let app = App()
        app.inbox.put(.tokenFailed(purpose: .alert, message: "no network"))
        let client = app.client()
        let seen = Guarded([PushNotice]())
        client.onNotice { notice in seen.withLock { $0.append(notice) } }
        #expect(seen.withLock { $0 } == [.tokenFailed(purpose: .alert, message: "no network")])
    }

    @Test func anEndedSessionAsksForASignIn() async {
        let app = App(needsCredential: true)
        app.server.with { $0.isSessionOver = true }
        app.inbox.put(.token(Self.token, purpose: .alert))
        let client = app.client()
        let seen = Guarded([PushNotice]())
        client.onNotice { notice in seen.withLock { $0.append(notice) } }
        client.signIn(as: "ada")
        await client.settled()
        #expect(seen.withLock { $0 } == [.signInRequired(user: "ada")])
        #expect(app.server.requests.isEmpty)
    }

    @Test func aClientThatIsGoneLeavesTheEventsToTheNext() async {
        let app = App()
        var client: PushClient? = app.client()
        await client?.settled()
        client = nil
        app.inbox.put(.token(Self.token, purpose: .alert))
        let next = app.client()
        next.signIn(as: "ada")
        await next.settled()
        #expect(app.server.row(next)?.tokens.count == 1)
    }
}

/// Takes requests, and never answers.
final class HungTransport: PushTransport {
    private let state = Guarded((count: 0, watchers: [(Int, CheckedContinuation<Void, Never>)]()))

    func send(_ request: PushRequest) async throws -> PushResponse {
        let ready = state.withLock { state in
            state.count += 1
            let count = state.count
            defer { state.watchers.removeAll { $0.0 <= count } }
            return state.watchers.filter { $0.0 <= count }.map(\.1)
        }
        for watcher in ready { watcher.resume() }
        await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
        throw CancellationError()
    }

    /// Returns when it has been called so often.
    func calls(_ count: Int) async {
        await withCheckedContinuation { continuation in
            let isThere = state.withLock { state in
                if state.count >= count { return true }
                state.watchers.append((count, continuation))
                return false
            }
            if isThere { continuation.resume() }
        }
    }
}
