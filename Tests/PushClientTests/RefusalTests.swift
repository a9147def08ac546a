import Foundation
import Testing

@testable import PushClient

/// What a refusal says, and of which state it says it.
@Suite struct RefusalTests {
    private static let alert = PushToken(Data([1]), purpose: .alert, environment: .production)
    private static let newer = PushToken(Data([2]), purpose: .alert, environment: .production)
    private static let update = ActivityToken(Data([7]), environment: .production)

    /// A device with its token, and the requests, questions and notices of its client.
    private struct Device {
        var machine: RegistrationMachine
        private(set) var uploads: [Upload] = []
        private(set) var notices: [PushNotice] = []

        init(credentials: Bool = false, user: String? = nil, owners: [String?]? = nil) {
            var rules = RegistrationMachine.Rules()
            rules.needsCredential = credentials
            let belief = owners.map { ServerBelief(existence: .unknown, owners: $0, confirmed: nil) } ?? .new
            machine = RegistrationMachine(
                record: RegistrationRecord(installation: UUID(), server: belief), credential: nil, rules: rules)
            if let user { take(.signIn(user)) }
            take(.token(RefusalTests.alert))
        }

        /// Keeps what follows from this event, and from no earlier one.
        mutating func take(_ event: RegistrationMachine.Event) {
            let actions = machine.handle(event, random: 0.5)
            uploads = actions.compactMap { if case .send(let upload, _, _) = $0 { upload } else { nil } }
            notices = actions.compactMap { if case .notice(let notice) = $0 { notice } else { nil } }
        }

        mutating func answer(_ status: Int, _ code: String? = nil) {
            take(.answered(machine.number, .response(status: status, code: code, retryAfter: nil)))
        }

        mutating func answer(_ credential: RegistrationMachine.CredentialAnswer) { take(.credential(machine.number, credential)) }
    }

    private func receipt() -> PushReceipt {
        PushReceipt(source: PushSource(notification: UUID(), job: 0), event: .shown, at: Date(timeIntervalSince1970: 0))
    }

    // MARK: A sign-in while the request is under way

    @Test(arguments: [401, 403]) func aRefusalOfTheFormerSessionUndoesNoSignIn(status: Int) {
        var device = Device(user: "ada")
        device.answer(200)
        device.take(.token(Self.newer))
        #expect(device.uploads.map(\.operation) == [.register])
        device.take(.signIn("ada"))
        device.answer(status)
        #expect(device.uploads.map(\.operation) == [.register] && device.notices == [])
        device.answer(status)
        #expect(device.uploads == [] && device.notices == [.signInRequired(user: "ada")])
    }

    /// Each launch signs the user in. A session changes nothing about a state that the server never takes.
    @Test func aSignInRepeatsNoStateThatTheServerRefused() {
        var device = Device(user: "ada")
        device.answer(200)
        device.take(.profile(PushProfile(appTags: ["t"])))
        #expect(device.uploads.map(\.operation) == [.register])
        device.take(.signIn("ada"))
        device.answer(400, "invalid_request")
        #expect(device.uploads == [] && device.notices == [.refused(operation: .register, status: 400, code: "invalid_request")])
    }

    @Test func aCredentialThatTheFormerSessionDidNotGetIsAskedForAgain() {
        var device = Device(credentials: true, user: "ada")
        #expect(device.machine.phase == .fetching(user: "ada"))
        device.take(.signIn("ada"))
        device.answer(.refused)
        #expect(device.machine.phase == .fetching(user: "ada") && device.notices == [])
        device.answer(.refused)
        #expect(device.machine.phase == .resting && device.notices == [.signInRequired(user: "ada")])
    }

    @Test(arguments: [401, 403]) func theFormerUsersRefusalAsksNobodyElseForASignIn(status: Int) {
        var device = Device(user: "ada")
        device.take(.signIn("bob"))
        device.answer(status)
        #expect(device.notices == [])
        guard case .register(let registration)? = device.uploads.first else {
            Issue.record("bob is not registered")
            return
        }
        #expect(registration.claim.user == "bob")
    }

    /// Nothing else waits, so the new session shows only with the receipts whether it is good.
    @Test(arguments: [401, 403]) func receiptsGoAgainWithTheNewSession(status: Int) {
        var device = Device(user: "ada")
        device.answer(200)
        device.take(.receipt(receipt()))
        device.take(.retryNow)
        #expect(device.uploads.map(\.operation) == [.receipts])
        device.take(.signIn("ada"))
        device.answer(status)
        #expect(device.uploads.map(\.operation) == [.receipts] && device.notices == [])
        device.answer(401)
        #expect(device.uploads == [] && device.notices == [.signInRequired(user: "ada")])
        #expect(device.machine.record.receipts.pending.count == 1)
    }

    // MARK: A device without a user

    @Test func aDeviceWithoutAUserAsksForNoSignIn() {
        var device = Device()
        device.answer(401)
        #expect(device.uploads == [] && device.notices == [])
        device.take(.profile(PushProfile(appTags: ["t"])))
        #expect(device.uploads.map(\.operation) == [.register])
        // Here the backend lets the device in, and refuses what it says.
        device.answer(403, "forbidden")
        #expect(device.notices == [.refused(operation: .register, status: 403, code: "forbidden")])
        device.take(.receipt(receipt()))
        device.take(.opened)
        device.answer(200)
        #expect(device.uploads.map(\.operation) == [.receipts])
        device.answer(401)
        #expect(device.notices == [])
        device.take(.deregister)
        #expect(device.uploads.map(\.operation) == [.deregister])
        device.answer(401)
        #expect(device.notices == [])
    }

    @Test(arguments: [RegistrationMachine.Event.signOut, .deregister])
    func aUserWhoLeavesNeedsTheSession(event: RegistrationMachine.Event) {
        var device = Device(user: "ada")
        device.answer(200)
        device.take(event)
        device.answer(401)
        #expect(device.notices == [.signInRequired(user: nil)])
    }

    // MARK: Several former users

    /// Each sign-out goes with the session of its user, and the app may lack one.
    @Test(arguments: [401, 403]) func aRefusedSignOutHoldsThatOfAnotherUserNotUp(status: Int) {
        var device = Device(owners: [nil, "ada", "bob", "carol"])
        #expect(device.uploads == [.signOut(.exactly("carol"))])
        device.answer(409, "owner_mismatch")
        #expect(device.uploads == [.signOut(.exactly("bob"))])
        device.answer(status)
        #expect(device.uploads == [.signOut(.exactly("ada"))] && device.notices == [])
        device.answer(status)
        #expect(device.uploads == [] && device.notices == [.signInRequired(user: nil)])
        // A good moment begins anew.
        device.take(.opened)
        #expect(device.uploads == [.signOut(.exactly("bob"))])
        device.answer(status)
        #expect(device.uploads == [.signOut(.exactly("ada"))])
        device.answer(200)
        #expect(device.uploads.map(\.operation) == [.register] && device.notices == [.signedOut])
    }

    // MARK: A redirect

    /// A backend, or a proxy before it, that sends everybody without a session to its sign-in page.
    @Test func aRedirectIsNoSuccess() {
        var device = Device(user: "ada")
        device.answer(200)
        device.take(.signOut)
        #expect(device.uploads == [.signOut(.exactly("ada"))])
        device.answer(302)
        #expect(device.notices == [.refused(operation: .signOut, status: 302, code: nil)] && device.uploads == [])
        #expect(device.machine.record.server.owners == ["ada"] && !device.machine.isUploaded)
        device.take(.opened)
        #expect(device.uploads == [.signOut(.exactly("ada"))])
    }

    @Test func aRedirectOfTheFormerSessionIsNoRefusal() {
        var device = Device(user: "ada")
        device.take(.signIn("ada"))
        device.answer(302)
        #expect(device.uploads.map(\.operation) == [.register] && device.notices == [])
        device.answer(302)
        #expect(device.uploads == [] && device.notices == [.refused(operation: .register, status: 302, code: nil)])
    }

    @Test func aRedirectDropsNothing() {
        var device = Device(user: "ada")
        device.answer(200)
        device.take(.activity("ride", Self.update))
        device.answer(302)
        #expect(device.notices == [.refused(operation: .reportActivity, status: 302, code: nil)] && device.uploads == [])
        device.take(.opened)
        #expect(device.uploads.map(\.operation) == [.reportActivity])
        device.answer(200)
        device.take(.activityEnded("ride"))
        device.answer(302)
        #expect(device.machine.record.activities.ended(of: "ada") == "ride")
        device.take(.receipt(receipt()))
        device.take(.opened)
        device.answer(204)
        #expect(device.uploads.map(\.operation) == [.receipts])
        device.answer(302)
        #expect(device.machine.record.receipts.pending.count == 1 && device.uploads == [])
    }

    // MARK: A Live Activity

    /// Its cause may be gone: an app that was mended at the backend, or a limit that other activities used up.
    @Test(arguments: [400, 404]) func aRefusedActivityIsReportedAgainWhenTheAppIsOpened(status: Int) {
        var device = Device(user: "ada")
        device.answer(200)
        device.take(.activity("ride", Self.update))
        device.answer(status)
        if status == 404 {
            // The client registers anew before it believes it.
            device.answer(201)
            device.answer(status)
        }
        #expect(device.notices == [.refused(operation: .reportActivity, status: status, code: nil)])
        device.take(.retryNow)
        device.take(.activity("ride", Self.update))
        #expect(device.uploads == [] && device.machine.isUploaded)
        device.take(.opened)
        #expect(device.uploads == [.reportActivity("ride", Self.update, .exactly("ada"))])
        device.answer(200)
        device.take(.opened)
        #expect(device.uploads == [] && device.machine.isUploaded)
    }
}
