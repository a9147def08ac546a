import Foundation
import TestDevice
import Testing

@testable import PushClient

/// The device's date jumps by hours or years, both ways. The client's delays and credentials do not depend on it.
@Suite struct DateChangeTests {
    private static let year: TimeInterval = 365 * 86_400
    private static let jumps: [TimeInterval] = [3_600, -7_200, 10 * year, -30 * year, year, -1, 86_400, 19 * year]

    @Test(arguments: [false, true])
    func delaysAreAsLongAsEver(needsCredential: Bool) async {
        let app = PushClientTests.App(needsCredential: needsCredential)
        app.server.with { $0.isOffline = true }
        app.inbox.put(.token(PushClientTests.token, purpose: .alert))
        let client = app.client()
        for (failures, jump) in (Self.jumps + Self.jumps).enumerated() {
            await Self.waits(app, client)
            #expect(app.server.with { $0.attempts } == failures + 1)
            // Half of the bound, because the random number is a half.
            let delay = min(.seconds(900), Duration.seconds(1 << min(failures, 20))) / 2
            #expect(app.clock.remaining == [delay])
            app.clock.jump(seconds: jump)
            #expect(app.clock.remaining == [delay])
            app.clock.advance(by: delay)
        }
        await Self.waits(app, client)
        #expect(app.server.with { $0.attempts } == Self.jumps.count * 2 + 1)
    }

    /// Returns when the client has tried, and waits until it tries again.
    private static func waits(_ app: PushClientTests.App, _ client: PushClient) async {
        // A request sleeps too, until its patience is over.
        await app.clock.sleepers(1)
        await client.settled()
        await app.clock.sleepers(1)
    }

    @Test func aServersDelayIsObeyed() async {
        let app = PushClientTests.App()
        app.server.with { $0.answers = [PushResponse(status: 429, headers: ["Retry-After": "3600"])] }
        app.inbox.put(.token(PushClientTests.token, purpose: .alert))
        let client = app.client()
        await Self.waits(app, client)
        for jump in Self.jumps {
            app.clock.jump(seconds: jump)
            client.retryNow()
            await client.settled()
            #expect(app.clock.remaining == [.milliseconds(3_600_500)])
        }
        #expect(app.server.requests.count == 1)
        app.clock.advance(by: .milliseconds(3_600_500))
        await app.clock.sleepers(1)
        await client.settled()
        #expect(client.status?.isUploaded == true)
    }

    /// The server says when a credential is over. The app's answer names a time too, and the device's date may be on either side of it.
    @Test func credentialsLiveAsLongAsTheServerSays() async throws {
        let app = PushClientTests.App(needsCredential: true)
        app.inbox.put(.token(PushClientTests.token, purpose: .alert))
        let client = app.client()
        client.signIn(as: "ada")
        await client.settled()
        let given = app.server.with { $0.serial }
        for (index, jump) in Self.jumps.enumerated() {
            app.clock.jump(seconds: jump)
            client.updateProfile { $0.appTags = ["t\(index)"] }
            await client.settled()
            #expect(app.server.row(client)?.profile.appTags == ["t\(index)"])
        }
        #expect(app.server.with { $0.serial } == given)

        // And it ends at once when the server says so, whatever the date is.
        app.server.with { state in state.model.expired = Set(state.model.credentials.keys) }
        client.updateProfile { $0.appTags = ["end"] }
        await client.settled()
        #expect(app.server.row(client)?.profile.appTags == ["end"])
        #expect(app.server.with { $0.serial } == given + 1)
    }

    @Test func budgetsAreAsLongAsEver() async {
        let clock = TestClock()
        async let answer = SilentPushWork(clock: clock).run {
            try await clock.sleep(for: .seconds(60))
            return .newData
        }
        await clock.sleepers(2)
        for jump in Self.jumps { clock.jump(seconds: jump) }
        #expect(clock.remaining == [.seconds(25), .seconds(60)])
        clock.advance(by: .seconds(59))
        #expect(await answer == .failed)
    }
}
