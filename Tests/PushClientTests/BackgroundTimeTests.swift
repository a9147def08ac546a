import Foundation
import TestDevice
import Testing

@testable import PushClient

/// What keeps the process running: background time while the client sends, and the system's answer to a tap.
@MainActor @Suite struct BackgroundTimeTests {
    /// The system's side: it counts what was asked for and given back, and can take it back.
    @MainActor final class Phone: BackgroundTime {
        enum Event: Equatable { case began, ended }

        let events: AsyncStream<Event>
        private let log: AsyncStream<Event>.Continuation
        private(set) var held = 0
        private(set) var begun = 0
        /// The system has no time left: it says so before `begin` returns.
        var isOver = false
        private var expire: [@MainActor @Sendable () -> Void] = []

        init() { (events, log) = AsyncStream.makeStream() }

        func begin(expired: @escaping @MainActor @Sendable () -> Void) -> (@MainActor @Sendable () -> Void)? {
            held += 1
            begun += 1
            log.yield(.began)
            if isOver { expired() }
            expire.append(expired)
            return {
                self.held -= 1
                self.log.yield(.ended)
            }
        }

        /// As UIKit does: the time must be given back when this returns.
        func takeBack() {
            for expired in expire { expired() }
            expire = []
        }
    }

    /// A transport whose requests a test lets go on.
    final class Gate: PushTransport {
        let server: FakeServer
        let arrived = AsyncStream<PushOperation>.makeStream()
        private let waiting = Guarded([CheckedContinuation<Void, Never>]())

        init(_ server: FakeServer) { self.server = server }

        func send(_ request: PushRequest) async throws -> PushResponse {
            await withCheckedContinuation { continuation in
                waiting.withLock { $0.append(continuation) }
                arrived.continuation.yield(request.operation)
            }
            return try await server.send(request)
        }

        func open() {
            let all = waiting.withLock { waiting in
                defer { waiting = [] }
                return waiting
            }
            for continuation in all { continuation.resume() }
        }
    }

    private let app = PushClientTests.App()
    private let phone = Phone()
    private let gate: Gate
    private let client: PushClient

    init() {
        gate = Gate(app.server)
        app.inbox.backgroundTime = phone
        client = PushClient(
            PushConfiguration(app: "shop", environment: .sandbox, server: .backend(gate), store: app.store), inbox: app.inbox,
            clock: app.clock,
            random: { 0.5 })
    }

    /// Ada is signed in, and a request is in flight.
    private func register() async {
        client.signIn(as: "ada")
        app.inbox.put(.token(PushClientTests.token, purpose: .alert))
        for await _ in gate.arrived.stream { break }
    }

    private func next(_ expected: Phone.Event) async {
        for await event in phone.events {
            #expect(event == expected)
            return
        }
    }

    @Test func aRequestHoldsTheTimeUntilNothingIsLeftToSend() async {
        await register()
        await next(.began)
        #expect(phone.held == 1)
        // Signed out while the first request is in flight: the sign-out follows it within the same time.
        client.signOut()
        gate.open()
        for await operation in gate.arrived.stream where operation == .signOut { break }
        #expect(phone.held == 1)
        gate.open()
        await next(.ended)
        #expect(phone.held == 0 && phone.begun == 1)
        #expect(app.server.row(client)?.owner == nil)
    }

    @Test func theSystemGetsTheTimeBackAtOnce() async {
        await register()
        await next(.began)
        phone.takeBack()
        #expect(phone.held == 0)
        await next(.ended)
        // The same request asks for no more; the next one does.
        client.updateProfile { $0.appTags = ["late"] }
        await Task { @MainActor in }.value
        #expect(phone.begun == 1)
        gate.open()
        for await _ in gate.arrived.stream { break }
        await next(.began)
        gate.open()
        await next(.ended)
        #expect(phone.held == 0 && phone.begun == 2)
    }

    @Test func timeThatIsOverBeforeItBeginsIsGivenBack() async {
        phone.isOver = true
        await register()
        await next(.began)
        await next(.ended)
        #expect(phone.held == 0)
        gate.open()
        await client.settled()
        #expect(app.server.row(client)?.owner == "ada")
    }

    /// The first attempts follow within seconds, and a later one would only use the time up.
    @Test func onlyANearAttemptHoldsTheTime() async {
        app.server.with { $0.isOffline = true }
        await register()
        await next(.began)
        var attempts = 1
        // 0.5 s, 1 s, 2 s, 4 s, 8 s, then 16 s.
        while attempts < 6 {
            gate.open()
            await client.settled()
            await app.clock.sleepers(1)
            #expect(phone.held == 1)
            app.clock.advance(by: .seconds(8))
            for await _ in gate.arrived.stream { break }
            attempts += 1
        }
        gate.open()
        await next(.ended)
        #expect(phone.held == 0 && phone.begun == 1)
    }

    // MARK: Taps

    private static func tap(_ category: String = "") throws -> PushTap {
        PushTap(notification: try PushNotification(json: Data(#"{"aps":{"category":"\#(category)"}}"#.utf8)), action: .custom("REPLY"))
    }

    @Test func theAnswerWaitsForTheHandler() async throws {
        let (begun, answered) = (AsyncStream<Void>.makeStream(), AsyncStream<Void>.makeStream())
        let work = AsyncStream<Never>.makeStream()
        var log: [String] = []
        client.onTap(
            PushRoutes { _ in
                begun.continuation.yield()
                for await _ in work.stream {}
                log.append("handled")
            })
        app.inbox.put(try Self.tap(), clock: app.clock) {
            log.append("answered")
            answered.continuation.yield()
        }
        for await _ in begun.stream { break }
        #expect(log == [])
        work.continuation.finish()
        for await _ in answered.stream { break }
        #expect(log == ["handled", "answered"])
    }

    @Test func aHandlerThatNeverEndsIsAnsweredInTime() async throws {
        let answered = AsyncStream<Void>.makeStream()
        client.onTap(PushRoutes { _ in await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in } })
        app.inbox.put(try Self.tap(), clock: app.clock) { answered.continuation.yield() }
        await app.clock.sleepers(1)
        #expect(app.clock.remaining == [.seconds(10)])
        app.clock.advance(by: .seconds(10))
        for await _ in answered.stream { break }
    }

    /// The app was started by the tap, and makes its screens later than the system waits.
    @Test func aTapThatWasAnsweredStillReachesTheLaterHandler() async throws {
        let (answered, handled) = (AsyncStream<Void>.makeStream(), AsyncStream<String?>.makeStream())
        app.inbox.put(try Self.tap("ORDER"), clock: app.clock) { answered.continuation.yield() }
        await app.clock.sleepers(1)
        app.clock.advance(by: .seconds(10))
        for await _ in answered.stream { break }
        client.onTap(PushRoutes { tap in handled.continuation.yield(tap.notification.aps.category) })
        for await category in handled.stream {
            #expect(category == "ORDER")
            break
        }
    }

    // MARK: Silent pushes

    @Test func aSilentPushWaitsForTheRequestInFlight() async {
        await register()
        let worked = AsyncStream<Void>.makeStream()
        async let answer = SilentPushWork(clock: app.clock).run(
            {
                worked.continuation.yield()
                return .newData
            }, finish: { [inbox = app.inbox] in await inbox.settled() })
        for await _ in worked.stream { break }
        // Without the wait for the request, the answer would be there, and its timer gone.
        await app.clock.sleepers(2)
        #expect(client.status?.isUploaded == false)
        gate.open()
        #expect(await answer == .newData)
        #expect(client.status?.isUploaded == true)
    }

    @Test func aRequestWithoutEndDoesNotChangeTheAnswer() async {
        await register()
        let worked = AsyncStream<Void>.makeStream()
        async let answer = SilentPushWork(clock: app.clock).run(
            {
                worked.continuation.yield()
                return .newData
            }, finish: { await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in } })
        for await _ in worked.stream { break }
        await app.clock.sleepers(2)
        app.clock.advance(by: .seconds(25))
        #expect(await answer == .newData)
    }
}
