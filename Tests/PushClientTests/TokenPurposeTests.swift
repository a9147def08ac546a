import Foundation
import TestDevice
import Testing

@testable import PushClient

/// Tokens beside that of alerts, from the adaptors' events to the server's rows.
@Suite struct TokenPurposeTests {
    static let widgets = Data([0xA1, 0xB2])

    /// A launch of an app with widgets.
    private struct Launch {
        let app: PushClientTests.App
        let inbox = PushInbox()
        let client: PushClient

        init(_ app: PushClientTests.App, purposes: Set<PushTokenPurpose> = [.alert, .widgets]) {
            self.app = app
            let configuration = PushConfiguration(
                app: "shop", environment: .sandbox, server: .backend(app.server), store: app.store, purposes: purposes)
            client = PushClient(configuration, inbox: inbox, clock: app.clock, random: { 0.5 })
            inbox.put(.token(PushClientTests.token, purpose: .alert))
        }

        func put(_ event: PushEvent) async {
            inbox.put(event)
            await client.settled()
        }

        /// What the server has.
        var purposes: Set<PushTokenPurpose> { Set(app.server.row(client)?.tokens.map(\.purpose) ?? []) }
    }

    @Test func aLaunchThatHasNotReadTheWidgetsTokenYetRetiresNothing() async {
        let app = PushClientTests.App()
        let first = Launch(app)
        await first.put(.token(Self.widgets, purpose: .widgets))
        #expect(first.purposes == [.alert, .widgets])

        let second = Launch(app)
        second.client.signIn(as: "ada")
        await second.client.settled()
        #expect(app.server.row(second.client)?.owner == "ada")
        #expect(second.purposes == [.alert, .widgets])
        #expect(second.client.status?.isUploaded == false)
        await second.put(.token(Self.widgets, purpose: .widgets))
        #expect(second.purposes == [.alert, .widgets])
        #expect(second.client.status?.isUploaded == true)
    }

    /// An iPad app on Apple Vision Pro: `startMonitoringLocationPushes` does nothing there.
    @Test(.timeLimit(.minutes(1))) func aPurposeWithoutAnswerDelaysTheRegistration() async {
        let app = PushClientTests.App()
        let earlier = Launch(app, purposes: [.alert, .location])
        await earlier.put(.token(Self.widgets, purpose: .location))
        #expect(earlier.purposes == [.alert, .location])
        let launch = Launch(app, purposes: [.alert, .location])
        let registered = AsyncStream<Void>.makeStream()
        launch.client.onNotice { notice in if case .registered = notice { registered.continuation.yield() } }
        #expect(app.server.requests.count == 1)
        // The earlier launch has this time, a request and its day.
        await app.clock.sleepers(4)
        app.clock.advance(by: .seconds(60))
        for await _ in registered.stream.prefix(1) {}
        await launch.client.settled()
        #expect(launch.purposes == [.alert, .location] && launch.client.status?.isUploaded == true)
        await launch.put(.token(Data([0xC3]), purpose: .location))
        #expect(app.server.requests.count == 3)
        #expect(app.server.row(launch.client)?.tokens.first { $0.purpose == .location }?.hex == "c3")
    }

    @Test func theLastWidgetGoesAndComesBackWithoutANotice() async {
        let launch = Launch(PushClientTests.App())
        let notices = Guarded([PushNotice]())
        launch.client.onNotice { notice in notices.withLock { $0.append(notice) } }
        await launch.put(.noToken(purpose: .widgets))
        #expect(launch.purposes == [.alert])
        await launch.put(.token(Self.widgets, purpose: .widgets))
        #expect(launch.purposes == [.alert, .widgets])
        await launch.put(.noToken(purpose: .widgets))
        #expect(launch.purposes == [.alert])
        #expect(notices.withLock { $0 } == Array(repeating: .registered(user: nil), count: 3))
    }

    @Test func aTokenThatIsReadAgainIsNoRequest() async {
        let launch = Launch(PushClientTests.App())
        await launch.put(.token(Self.widgets, purpose: .widgets))
        let requests = launch.app.server.requests.count
        await launch.put(.token(Self.widgets, purpose: .widgets))
        await launch.put(.goodMoment)
        #expect(launch.app.server.requests.count == requests)
    }

    /// A widget is placed, and WidgetKit makes its token too slowly, or cannot say. The token of the earlier launch still works.
    @Test(arguments: [PushEvent.tokenPending(purpose: .widgets), .tokenFailed(purpose: .widgets, message: "WidgetKit cannot say")])
    func aPlacedWidgetWithoutItsTokenRetiresNothing(event: PushEvent) async {
        let app = PushClientTests.App()
        let first = Launch(app)
        await first.put(.token(Self.widgets, purpose: .widgets))
        let second = Launch(app)
        let notices = Guarded([PushNotice]())
        second.client.onNotice { notice in notices.withLock { $0.append(notice) } }
        await second.put(event)
        #expect(second.purposes == [.alert, .widgets] && second.client.status?.isUploaded == true)
        var expected = [PushNotice.registered(user: nil)]
        if case .tokenFailed(let purpose, let message) = event { expected.insert(.tokenFailed(purpose: purpose, message: message), at: 0) }
        #expect(notices.withLock { $0 } == expected)
    }

    // MARK: Tokens that an adaptor reads

    private static let reading = PushEvent.token(widgets, purpose: .widgets)

    /// What an adaptor puts into the inbox, if the system answers so after each of these seconds of running.
    private func answer(_ readings: [TokenReading], after pauses: [Duration]) async -> (events: [PushEvent], looks: Int) {
        let (clock, inbox, looks) = (TestClock(), PushInbox(), Guarded(0))
        async let done: Void = TokenReading.forward(.widgets, to: inbox, clock: clock) {
            readings[
                looks.withLock { looks in
                    defer { looks += 1 }
                    return looks
                }]
        }
        for pause in pauses {
            await clock.sleepers(1)
            #expect(taken(from: inbox) == [])
            clock.advance(by: pause)
        }
        await done
        return (taken(from: inbox), looks.withLock { $0 })
    }

    @Test(.timeLimit(.minutes(1))) func aTokenThatWidgetKitStillMakesIsNotAbsent() async {
        let seconds = Array(repeating: Duration.seconds(1), count: 10)
        #expect(await answer([.token(Self.widgets)], after: []) == ([Self.reading], 1))
        #expect(await answer([.pending, .token(Self.widgets)], after: Array(seconds.prefix(5))) == ([Self.reading], 2))
        #expect(await answer([.pending, .pending, .token(Self.widgets)], after: seconds) == ([Self.reading], 3))
        #expect(await answer([.pending, .pending, .pending], after: seconds) == ([.tokenPending(purpose: .widgets)], 3))
        #expect(await answer([.absent], after: []) == ([.noToken(purpose: .widgets)], 1))
    }

    @Test func aSystemThatCannotSayHasNotSaidThatThereIsNone() async {
        let inbox = PushInbox()
        await TokenReading.forward(.widgets, to: inbox, clock: TestClock()) { throw CancellationError() }
        #expect(taken(from: inbox) == [.tokenFailed(purpose: .widgets, message: "\(CancellationError())")])
    }

    @Test(.timeLimit(.minutes(1))) func theTimeOfASuspendedProcessMakesNoTokenAbsent() async {
        let seconds = Array(repeating: Duration.seconds(1), count: 4)
        #expect(await answer([.pending, .token(Self.widgets)], after: [.seconds(3_600)] + seconds) == ([Self.reading], 2))
    }

    @Test func aFullInboxKeepsTheAnswersAboutTokens() {
        let inbox = PushInbox()
        inbox.put(.noToken(purpose: .widgets))
        inbox.put(.tokenFailed(purpose: .location, message: "no network"))
        for _ in 0..<300 { inbox.put(.goodMoment) }
        #expect(
            Array(taken(from: inbox).prefix(2)) == [.noToken(purpose: .widgets), .tokenFailed(purpose: .location, message: "no network")])
    }

    /// Each opening of the app says again which activities run.
    @Test func anAppWithoutAClientKeepsItsTokens() {
        let inbox = PushInbox()
        let token = Data([1])
        inbox.put(.token(token, purpose: .alert))
        inbox.put(.activityToken(token, activity: "ride", type: "Ride"))
        for _ in 0..<300 { inbox.put(.activities([:], type: "Ride", age: .seconds(11))) }
        #expect(
            taken(from: inbox) == [
                .token(token, purpose: .alert), .activityToken(token, activity: "ride", type: "Ride"),
                .activities([:], type: "Ride", age: .seconds(11)),
            ])
        #expect(inbox.dropped == 0)
    }

    @Test func theLatestTokenComesAfterWhatWasSaidBefore() {
        let inbox = PushInbox()
        inbox.put(.token(Data([1]), purpose: .voip))
        inbox.put(.noToken(purpose: .voip))
        inbox.put(.token(Data([2]), purpose: .voip))
        inbox.put(.token(Data([3]), purpose: .alert))
        // A failure is no later token.
        inbox.put(.tokenFailed(purpose: .alert, message: "no network"))
        #expect(
            taken(from: inbox) == [
                .noToken(purpose: .voip), .token(Data([2]), purpose: .voip), .token(Data([3]), purpose: .alert),
                .tokenFailed(purpose: .alert, message: "no network"),
            ])
    }

    // MARK: Push-to-talk

    @Test func aPushToTalkTokenIsRegisteredWhileAChannelIsJoined() {
        let inbox = PushInbox()
        let tokens = PushToTalkTokens(inbox: inbox)
        let (first, second) = (Data([1]), Data([2]))
        let events = Guarded([PushEvent]())
        inbox.attach(settled: {}) { entry in
            events.withLock { $0.append(entry.event) }
            return true
        }
        tokens.started(activeChannel: nil)
        tokens.received(first)
        tokens.joined()
        tokens.received(second)
        tokens.left()
        tokens.joined()
        tokens.left()
        #expect(
            events.withLock { $0 } == [
                .noToken(purpose: .pushtotalk), .token(first, purpose: .pushtotalk), .token(second, purpose: .pushtotalk),
                .noToken(purpose: .pushtotalk), .token(second, purpose: .pushtotalk), .noToken(purpose: .pushtotalk),
            ])
    }

    @Test func aRestoredChannelWaitsForItsToken() {
        let inbox = PushInbox()
        let tokens = PushToTalkTokens(inbox: inbox)
        tokens.started(activeChannel: UUID())
        // Nothing yet, so a registration of this launch does not retire the token that the server has.
        #expect(taken(from: inbox) == [])
        tokens.received(Data([1]))
        #expect(taken(from: inbox) == [.token(Data([1]), purpose: .pushtotalk)])
    }

    private func taken(from inbox: PushInbox) -> [PushEvent] {
        let events = Guarded([PushEvent]())
        inbox.attach(settled: {}) { entry in
            events.withLock { $0.append(entry.event) }
            return true
        }
        // The next event waits for the next consumer.
        inbox.attach(settled: {}) { _ in false }
        return events.withLock { $0 }
    }
}
