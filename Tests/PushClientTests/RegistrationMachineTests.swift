import Foundation
import Testing

@testable import PushClient

/// Single decisions of the machine; the exploration tests their combinations.
@Suite struct RegistrationMachineTests {
    static let alert = PushToken(Data([1]), purpose: .alert, environment: .production)
    static let voip = PushToken(Data([2]), purpose: .voip, environment: .production)

    private func machine(
        credentials: Bool = false, purposes: Set<PushTokenPurpose> = [.alert], belief: ServerBelief = .new
    ) -> RegistrationMachine {
        var rules = RegistrationMachine.Rules(purposes: purposes)
        rules.needsCredential = credentials
        return RegistrationMachine(record: RegistrationRecord(installation: UUID(), server: belief), credential: nil, rules: rules)
    }

    private func uploads(_ actions: [RegistrationMachine.Action]) -> [Upload] {
        actions.compactMap { if case .send(let upload, _, _) = $0 { upload } else { nil } }
    }

    private func answer(
        _ machine: inout RegistrationMachine, _ status: Int, _ code: String? = nil, retryAfter: Duration? = nil
    ) -> [RegistrationMachine.Action] {
        machine.handle(.answered(machine.number, .response(status: status, code: code, retryAfter: retryAfter)), random: 0.5)
    }

    // MARK: Live Activities

    private static let first = ActivityToken(Data([7]), environment: .production)
    private static let second = ActivityToken(Data([8]), environment: .production)
    private static let third = ActivityToken(Data([9]), environment: .production)

    /// A machine whose launch has registered ada.
    private func registered(credentials: Bool = false) -> RegistrationMachine {
        var machine = machine(credentials: credentials)
        _ = machine.handle(.signIn("ada"), random: 0)
        _ = machine.handle(.token(Self.alert), random: 0)
        if credentials { _ = machine.handle(.credential(machine.number, .granted(DeviceCredential("psd_1"))), random: 0) }
        _ = answer(&machine, 200)
        return machine
    }

    @Test func anActivityIsReportedOnceThisLaunchHasRegistered() {
        var machine = machine()
        _ = machine.handle(.signIn("ada"), random: 0)
        #expect(uploads(machine.handle(.activity("ride", Self.first), random: 0)) == [])
        #expect(uploads(machine.handle(.token(Self.alert), random: 0)).map(\.operation) == [.register])
        #expect(uploads(answer(&machine, 200)) == [.reportActivity("ride", Self.first, .exactly("ada"))])
        #expect(!machine.isUploaded)
        #expect(uploads(answer(&machine, 200)) == [] && machine.isUploaded)
        #expect(uploads(machine.handle(.activity("ride", Self.first), random: 0)) == [])
    }

    @Test func theNewestTokenOfAnActivityWins() {
        var machine = registered()
        #expect(uploads(machine.handle(.activity("ride", Self.first), random: 0)).count == 1)
        #expect(uploads(machine.handle(.activity("ride", Self.second), random: 0)) == [])
        #expect(uploads(answer(&machine, 200)) == [.reportActivity("ride", Self.second, .exactly("ada"))])
        #expect(uploads(answer(&machine, 200)) == [])
    }

    @Test func anEndOutlivesTheProcessAndAnActivityThatNeverWasReportedToo() throws {
        var machine = machine()
        _ = machine.handle(.activity("ride", Self.first), random: 0)
        #expect(machine.handle(.activityEnded("ride"), random: 0) == [.save])
        #expect(machine.record.activities.ended(of: nil) == "ride")
        #expect(machine.handle(.activityEnded("ride"), random: 0) == [])
        let stored = try JSONDecoder().decode(RegistrationRecord.self, from: JSONEncoder().encode(machine.record))
        var next = RegistrationMachine(record: stored, credential: nil, rules: machine.rules)
        _ = next.start()
        _ = next.handle(.token(Self.alert), random: 0)
        #expect(uploads(answer(&next, 200)) == [.endActivity("ride")])
        // No answer: again, until the server has it.
        _ = next.handle(.answered(next.number, .lost), random: 0)
        #expect(uploads(next.handle(.retryNow, random: 0)) == [.endActivity("ride")])
        #expect(uploads(answer(&next, 204)) == [] && next.record.activities == KnownActivities())
    }

    /// An app may begin another activity under the id of one that is over. At the server a late end would end the newer one.
    @Test(arguments: [false, true])
    func theEndOfAnActivityNeverEndsANewerOneOfItsID(endComesFirst: Bool) {
        var machine = registered()
        _ = machine.handle(.activity("other", Self.first), random: 0)
        _ = machine.handle(.activity("ride", Self.first), random: 0)
        if endComesFirst { _ = machine.handle(.activityEnded("ride"), random: 0) }
        _ = machine.handle(.activity("ride#2", Self.second), random: 0)
        if !endComesFirst { _ = machine.handle(.activityEnded("ride"), random: 0) }
        // A late token of the earlier one brings it not back.
        _ = machine.handle(.activity("ride", Self.third), random: 0)
        #expect(uploads(answer(&machine, 200)).map(\.operation) == [.reportActivity])
        #expect(machine.phase.upload == .reportActivity("ride#2", Self.second, .exactly("ada")))
        #expect(uploads(answer(&machine, 200)) == [] && machine.isUploaded)
    }

    @Test(arguments: [false, true])
    func theEarlierActivityOfAnIDIsReportedAgainWhenTheNewerEnds(answerIsLost: Bool) {
        var machine = registered()
        _ = machine.handle(.activity("ride", Self.first), random: 0)
        _ = answer(&machine, 200)
        #expect(uploads(machine.handle(.activity("ride#2", Self.second), random: 0)).map(\.operation) == [.reportActivity])
        _ = machine.handle(.activityEnded("ride#2"), random: 0)
        var sent = uploads(answerIsLost ? machine.handle(.answered(machine.number, .lost), random: 0) : answer(&machine, 200))
        if answerIsLost { sent = uploads(machine.handle(.timeIsUp(machine.number), random: 0)) }
        #expect(sent == [.reportActivity("ride", Self.first, .exactly("ada"))])
    }

    @Test func anAnswerThatComesAfterTheEndReportsNoToken() {
        var machine = registered()
        _ = machine.handle(.activity("ride", Self.first), random: 0)
        _ = machine.handle(.activityEnded("ride"), random: 0)
        #expect(uploads(answer(&machine, 200)) == [.endActivity("ride")])
        // The same token again, of a newer activity.
        _ = machine.handle(.activity("ride#2", Self.first), random: 0)
        #expect(uploads(answer(&machine, 204)) == [.reportActivity("ride#2", Self.first, .exactly("ada"))])
    }

    @Test func aRefusedTokenIsNotTheNewerOne() {
        var machine = registered()
        _ = machine.handle(.activity("ride", Self.first), random: 0)
        _ = machine.handle(.activity("ride", Self.second), random: 0)
        #expect(uploads(answer(&machine, 400, "invalid_request")) == [.reportActivity("ride", Self.second, .exactly("ada"))])
    }

    // MARK: Live Activities of earlier launches

    /// The app is killed, and starts again.
    private func relaunched(_ machine: RegistrationMachine) throws -> RegistrationMachine {
        let stored = try JSONDecoder().decode(RegistrationRecord.self, from: JSONEncoder().encode(machine.record))
        var next = RegistrationMachine(record: stored, credential: nil, rules: machine.rules)
        _ = next.start()
        _ = next.handle(.token(Self.alert), random: 0)
        _ = answer(&next, 200)
        return next
    }

    @Test func anActivityThatEndedWhileTheAppWasDeadIsReportedOnceActivityKitHasLoaded() throws {
        var machine = registered()
        for (name, type) in [("ride", "Ride"), ("match", "Match")] as [(ActivityName, String)] {
            _ = machine.handle(.activity(name, ActivityToken(Data([1]), environment: .production, attributesType: type)), random: 0)
            _ = answer(&machine, 200)
        }
        machine = try relaunched(machine)
        #expect(uploads(machine.handle(.activities([], type: "Ride", age: .seconds(9)), random: 0)) == [])
        #expect(uploads(machine.handle(.activities([], type: "Ride", age: .seconds(10)), random: 0)) == [.endActivity("ride")])
        // The list of one type says nothing of another.
        #expect(uploads(answer(&machine, 204)) == [] && machine.record.activities.isRunning("match"))
    }

    /// `Ride.Attributes` and `Match.Attributes` are one name for the server.
    @Test func theListOfATypeSaysNothingOfAnotherOfTheSameShortName() {
        var machine = registered()
        let token = ActivityToken(Data([1]), environment: .production, attributesType: "Attributes", fullType: "Shop.Ride.Attributes")
        #expect(uploads(machine.handle(.activity("ride", token), random: 0)).map(\.operation) == [.reportActivity])
        _ = answer(&machine, 200)
        let age = KnownActivities.loading
        #expect(uploads(machine.handle(.activities([], type: "Shop.Match.Attributes", age: age), random: 0)) == [])
        #expect(machine.record.activities.isRunning("ride"))
        #expect(uploads(machine.handle(.activities([], type: "Shop.Ride.Attributes", age: age), random: 0)) == [.endActivity("ride")])
    }

    @Test func anActivityThatWasMissingTooEarlyIsNoEnd() throws {
        var machine = registered()
        _ = machine.handle(.activity("ride", ActivityToken(Data([1]), environment: .production, attributesType: "Ride")), random: 0)
        _ = machine.handle(.activities([], type: "Ride", age: .seconds(10)), random: 0)
        // The report is under way, and ActivityKit lists the activity after all.
        _ = machine.handle(.activities(["ride"], type: "Ride", age: .seconds(11)), random: 0)
        #expect(uploads(answer(&machine, 200)) == [])
        #expect(machine.record.activities.isRunning("ride"))
    }

    @Test func anActivityThatActivityKitYieldsAgainWasNotOver() {
        var machine = registered()
        let token = ActivityToken(Data([1]), environment: .production, attributesType: "Ride")
        _ = machine.handle(.profile(PushProfile(appTags: ["t"])), random: 0)
        _ = machine.handle(.answered(machine.number, .lost), random: 0.5)
        #expect(machine.phase == .waiting(mayHurry: true))
        _ = machine.handle(.activity("ride", token), random: 0)
        _ = machine.handle(.activities([], type: "Ride", age: KnownActivities.loading), random: 0)
        #expect(!machine.record.activities.isRunning("ride"))
        _ = machine.handle(.activity("ride", token), random: 0)
        // The list of the same look loses not the token.
        _ = machine.handle(.activities(["ride"], type: "Ride", age: KnownActivities.loading), random: 0)
        #expect(uploads(machine.handle(.retryNow, random: 0)).map(\.operation) == [.register])
        #expect(uploads(answer(&machine, 200)) == [.reportActivity("ride", token, .exactly("ada"))])
        #expect(uploads(answer(&machine, 200)) == [] && machine.isUploaded)
    }

    @Test func anActivityThatIsSeenWhileItsEndIsUnderWayStays() {
        var machine = registered()
        let token = ActivityToken(Data([1]), environment: .production, attributesType: "Ride")
        _ = machine.handle(.activity("ride", token), random: 0)
        _ = answer(&machine, 200)
        #expect(uploads(machine.handle(.activities([], type: "Ride", age: .seconds(10)), random: 0)) == [.endActivity("ride")])
        _ = machine.handle(.activity("ride", token), random: 0)
        #expect(uploads(answer(&machine, 204)) == [.reportActivity("ride", token, .exactly("ada"))])
    }

    @Test func theFormerUsersActivityIsNeverTheNextUsers() throws {
        var machine = registered()
        _ = machine.handle(.activity("ride", Self.first), random: 0)
        _ = answer(&machine, 200)
        _ = machine.handle(.signIn("grace"), random: 0)
        _ = answer(&machine, 200)
        machine = try relaunched(machine)
        // It still runs, and iOS gives its token again at each launch.
        #expect(uploads(machine.handle(.activity("ride", Self.first), random: 0)) == [])
        #expect(uploads(machine.handle(.activityEnded("ride"), random: 0)) == [], "the server has ended it when grace came")
        #expect(machine.record.activities == KnownActivities())
    }

    /// The backend has signed ada out, and a start for her comes late; or it comes in the moment of her own sign-out, without network.
    @Test(arguments: [false, true])
    func anActivityThatTheServerNeverGotIsReportedForTheNextUserOrNone(isRefused: Bool) throws {
        var machine = registered()
        _ = machine.handle(.activity("ride", Self.first), random: 0)
        if isRefused {
            _ = answer(&machine, 409, "owner_mismatch")
        } else {
            _ = machine.handle(.answered(machine.number, .lost), random: 0)
        }
        var sent = uploads(machine.handle(.signOut, random: 0)).first ?? machine.phase.upload
        while sent != nil { sent = uploads(answer(&machine, 200)).first }
        machine = try relaunched(machine)
        #expect(uploads(machine.handle(.activity("ride", Self.first), random: 0)) == [.reportActivity("ride", Self.first, .exactly(nil))])
        _ = answer(&machine, 200)
        // The server has it now, and it is nobody's.
        _ = machine.handle(.signIn("grace"), random: 0)
        #expect(uploads(answer(&machine, 200)) == [])
    }

    /// A kill may come before the answer.
    @Test func forWhomAReportLeavesIsStoredBeforeIt() throws {
        var machine = registered()
        _ = machine.handle(.activity("ride", Self.first), random: 0)
        _ = answer(&machine, 401)
        _ = machine.handle(.signIn("grace"), random: 0)
        let actions = answer(&machine, 200)
        #expect(uploads(actions) == [.reportActivity("ride", Self.first, .exactly("grace"))])
        #expect(actions.firstIndex(of: .save).map { $0 < actions.count - 2 } == true)
        _ = machine.handle(.activityEnded("ride"), random: 0)
        #expect(machine.record.activities.ended(of: "grace") == "ride")
    }

    @Test func anInstallationThatIsMadeAnewHearsOfItsActivitiesAgain() {
        var machine = machine()
        _ = machine.handle(.signIn("ada"), random: 0)
        _ = machine.handle(.token(Self.alert), random: 0)
        let timers = answer(&machine, 201).compactMap { if case .wake(_, let number) = $0, number < 0 { number } else { nil } }
        _ = machine.handle(.activity("ride", Self.first), random: 0)
        #expect(uploads(answer(&machine, 200)) == [])
        for timer in timers { _ = machine.handle(.timeIsUp(timer), random: 0) }
        #expect(uploads(machine.handle(.opened, random: 0)).map(\.operation) == [.register])
        // The server had forgotten the installation meanwhile.
        #expect(uploads(answer(&machine, 201)) == [.reportActivity("ride", Self.first, .exactly("ada"))])
    }

    @Test func anEndOfTheSameUserSurvivesASignOutThatNeverReachedTheServer() {
        var machine = registered()
        _ = machine.handle(.activity("ride", Self.first), random: 0)
        _ = answer(&machine, 200)
        _ = machine.handle(.signOut, random: 0)
        _ = machine.handle(.activityEnded("ride"), random: 0)
        _ = machine.handle(.signIn("ada"), random: 0)
        _ = machine.handle(.answered(machine.number, .lost), random: 0)
        var sent = uploads(machine.handle(.retryNow, random: 0))
        var seen: [Upload] = []
        while let upload = sent.first {
            seen.append(upload)
            sent = uploads(answer(&machine, 200))
        }
        #expect(seen.contains(.endActivity("ride")))
    }

    @Test func theDeviceRemembersAHundredActivities() {
        var known = KnownActivities()
        for number in 0...KnownActivities.capacity { known.see(ActivityName(stringLiteral: "\(number)"), type: nil, user: nil) }
        #expect(!known.isRunning("0") && known.isRunning("1") && known.running(of: nil).count == KnownActivities.capacity)
    }

    // MARK: Start tokens

    private static let start = PushToken(Data([9]), purpose: .activityStart(type: "Ride"), environment: .production)

    @Test func aRegistrationDoesNotWaitForAStartToken() {
        var machine = machine(purposes: [.alert, .activityStart(type: "Ride")])
        #expect(uploads(machine.handle(.token(Self.alert), random: 0)).map(\.operation) == [.register])
    }

    @Test func startTokensAloneRegisterNothing() {
        var machine = machine()
        _ = machine.handle(.token(Self.start), random: 0)
        // The registration would retire the alert token that the server has.
        #expect(uploads(machine.handle(.tokenFailed(.alert), random: 0)) == [])
        var other = self.machine(purposes: [])
        #expect(uploads(other.handle(.token(Self.start), random: 0)).map(\.operation) == [.register], "the app uses no other token")
    }

    @Test func aStartTokenThatIsReadAgainChangesNothing() {
        var machine = registered()
        _ = machine.handle(.token(Self.start), random: 0)
        _ = answer(&machine, 200)
        #expect(machine.handle(.token(Self.start), random: 0) == [] && machine.isUploaded)
        let newer = PushToken(Data([10]), purpose: Self.start.purpose, environment: .production)
        #expect(uploads(machine.handle(.token(newer), random: 0)).map(\.operation) == [.register])
    }

    @Test func anotherUserReportsNoActivityThatTheServerHasForTheFormerOne() {
        var machine = registered()
        _ = machine.handle(.activity("ride", Self.first), random: 0)
        _ = answer(&machine, 200)
        _ = machine.handle(.profile(PushProfile(appTags: ["t"])), random: 0)
        _ = machine.handle(.signOut, random: 0)
        var seen: [PushOperation] = []
        var sent = uploads(answer(&machine, 200))
        while let upload = sent.first {
            seen.append(upload.operation)
            sent = uploads(answer(&machine, 200))
        }
        #expect(!seen.isEmpty && !seen.contains(.reportActivity))
    }

    @Test func anActivityIsReportedWithACredentialOfItsUser() {
        var machine = registered(credentials: true)
        _ = machine.handle(.activity("ride", Self.first), random: 0)
        #expect(machine.phase == .sending(.reportActivity("ride", Self.first, .exactly("ada"))))
        // The server revoked it meanwhile.
        #expect(answer(&machine, 403, "credential_revoked").contains(.fetchCredential(user: "ada", number: machine.number)))
    }

    @Test func aForgottenInstallationRegistersBeforeItsActivity() {
        var machine = registered()
        _ = machine.handle(.activity("ride", Self.first), random: 0)
        #expect(uploads(answer(&machine, 404, "not_found")).map(\.operation) == [.register])
        #expect(uploads(answer(&machine, 201)).map(\.operation) == [.reportActivity])
    }

    @Test func anActivityThatIsUnknownTwiceIsRefused() {
        var machine = registered()
        _ = machine.handle(.activity("ride", Self.first), random: 0)
        _ = answer(&machine, 404, "not_found")
        _ = answer(&machine, 200)
        let actions = answer(&machine, 404, "not_found")
        #expect(actions.contains(.notice(.refused(operation: .reportActivity, status: 404, code: "not_found"))))
        #expect(uploads(actions) == [] && machine.isUploaded)
    }

    @Test func aSessionThatIsOverLosesNothing() {
        var machine = registered()
        _ = machine.handle(.activity("ride", Self.first), random: 0)
        #expect(answer(&machine, 401).contains(.notice(.signInRequired(user: "ada"))))
        #expect(uploads(machine.handle(.signIn("ada"), random: 0)).map(\.operation) == [.reportActivity])
        _ = answer(&machine, 200)
        _ = machine.handle(.activityEnded("ride"), random: 0)
        _ = answer(&machine, 401)
        #expect(machine.record.activities.ended(of: "ada") == "ride")
        _ = machine.handle(.signIn("ada"), random: 0)
        _ = answer(&machine, 204)
        _ = machine.handle(.receipt(receipt()), random: 0)
        #expect(uploads(machine.handle(.retryNow, random: 0)).map(\.operation) == [.receipts])
        #expect(uploads(answer(&machine, 401)) == [])
        #expect(machine.record.receipts.pending.count == 1)
    }

    @Test func aRefusedActivityHoldsNothingElseUp() {
        var machine = registered()
        _ = machine.handle(.activity("ride", Self.first), random: 0)
        _ = machine.handle(.activity("second", Self.second), random: 0)
        let actions = answer(&machine, 400, "invalid_request")
        #expect(actions.contains(.notice(.refused(operation: .reportActivity, status: 400, code: "invalid_request"))))
        #expect(uploads(actions) == [.reportActivity("second", Self.second, .exactly("ada"))])
        #expect(uploads(answer(&machine, 200)) == [])
    }

    @Test func aStartTokenIsPartOfTheRegistration() {
        var machine = registered()
        let start = PushToken(Data([9]), purpose: .activityStart(type: "Ride"), environment: .production)
        guard case .register(let registration)? = uploads(machine.handle(.token(start), random: 0)).first else {
            Issue.record("the start token is not registered")
            return
        }
        #expect(registration.tokens.map(\.purpose.rawValue) == ["activity_start:Ride", "alert"])
    }

    @Test func aRegistrationWaitsForEachPurpose() {
        var machine = machine(purposes: [.alert, .voip])
        #expect(machine.handle(.signIn("ada"), random: 0) == [.save])
        #expect(uploads(machine.handle(.token(Self.alert), random: 0)) == [])
        let sent = uploads(machine.handle(.token(Self.voip), random: 0))
        #expect(
            sent == [
                .register(
                    Upload.Registration(
                        claim: Claim(user: "ada", profile: PushProfile()), tokens: [Self.alert, Self.voip], expected: .exactly(nil)))
            ])
    }

    @Test func aFailedPurposeHoldsNobodyUp() {
        var machine = machine(purposes: [.alert, .voip])
        _ = machine.handle(.token(Self.alert), random: 0)
        #expect(uploads(machine.handle(.tokenFailed(.voip), random: 0)).count == 1)
    }

    /// The system could not say: a launch without network, for example. The token of an earlier launch still works.
    @Test func aFailureBeforeAnyTokenRetiresNothingAtTheServer() {
        let location = PushToken(Data([3]), purpose: .location, environment: .production)
        var machine = machine(purposes: [.alert, .location])
        var server = ModelServer(needsCredential: false)
        func settle() {
            for _ in 0..<10 {
                guard let upload = machine.phase.upload else { return }
                let call = ModelServer.Call(installation: machine.record.installation, upload: upload, credential: nil)
                _ = machine.handle(.answered(machine.number, server.handle(call)), random: 0)
            }
        }
        for token in [Self.alert, location] { _ = machine.handle(.token(token), random: 0) }
        settle()
        machine = RegistrationMachine(record: machine.record, credential: nil, rules: machine.rules)
        _ = machine.handle(.tokenFailed(.location), random: 0)
        let newer = PushToken(Data([4]), purpose: .alert, environment: .production)
        #expect(uploads(machine.handle(.token(newer), random: 0)).map(\.operation) == [.register])
        settle()
        #expect(server.rows[machine.record.installation]?.tokens == [newer, location] && machine.isUploaded)
        // "None now" retires it, also after the failure; a failure after that brings nothing back.
        #expect(uploads(machine.handle(.noToken(.location), random: 0)).map(\.operation) == [.register])
        settle()
        #expect(server.rows[machine.record.installation]?.tokens == [newer] && machine.isUploaded)
        #expect(uploads(machine.handle(.tokenFailed(.location), random: 0)) == [])
    }

    @Test func aFailureLeavesTheTokenOfThisLaunchAndNoTokenRetiresIt() {
        var machine = machine(purposes: [.alert, .voip])
        _ = machine.handle(.token(Self.alert), random: 0)
        _ = machine.handle(.token(Self.voip), random: 0)
        _ = answer(&machine, 200)
        #expect(uploads(machine.handle(.tokenFailed(.alert), random: 0)) == [] && machine.isUploaded)
        guard case .register(let registration)? = uploads(machine.handle(.noToken(.voip), random: 0)).first else {
            Issue.record("the token is not retired")
            return
        }
        #expect(registration.tokens == [Self.alert])
        #expect(uploads(answer(&machine, 200)) == [])
        #expect(uploads(machine.handle(.noToken(.voip), random: 0)) == [])
    }

    @Test func switchedOffLiveActivitiesHaveNoStartToken() {
        var machine = registered()
        _ = machine.handle(.token(Self.start), random: 0)
        _ = answer(&machine, 200)
        guard case .register(let registration)? = uploads(machine.handle(.tokenFailed(Self.start.purpose), random: 0)).first else {
            Issue.record("the start token is still stated")
            return
        }
        #expect(registration.tokens == [Self.alert])
    }

    @Test func aFailureAloneRegistersNothing() {
        var machine = machine()
        _ = machine.handle(.signIn("ada"), random: 0)
        // A registration without tokens would retire the one that the server has.
        #expect(uploads(machine.handle(.tokenFailed(.alert), random: 0)) == [])
    }

    // MARK: A purpose that the system never answers

    /// The timers beside the phases that these actions begin.
    private func timers(_ actions: [RegistrationMachine.Action]) -> [Int] {
        actions.compactMap { if case .wake(.seconds(30), let number) = $0, number < 0 { number } else { nil } }
    }

    private static let timer = RegistrationMachine.tokenTimer

    @Test func aPurposeWithoutAnswerHoldsTheRegistrationUpForHalfAMinute() {
        var machine = machine(purposes: [.alert, .voip, .location])
        _ = machine.handle(.signIn("ada"), random: 0)
        // The time begins with the answer for alerts, and once.
        #expect(timers(machine.handle(.token(Self.voip), random: 0)) == [])
        let begun = machine.handle(.token(Self.alert), random: 0)
        #expect(timers(begun) == [Self.timer] && uploads(begun) == [])
        #expect(timers(machine.handle(.token(PushToken(Data([4]), purpose: .alert, environment: .production)), random: 0)) == [])
        guard case .register(let registration)? = uploads(machine.handle(.timeIsUp(Self.timer), random: 0)).first else {
            Issue.record("the device does not register")
            return
        }
        #expect(registration.tokens.map(\.purpose) == [.alert, .voip] && registration.keeps == [.location])
        #expect(uploads(answer(&machine, 200)) == [] && machine.isUploaded)
        let late = PushToken(Data([5]), purpose: .location, environment: .production)
        #expect(uploads(machine.handle(.token(late), random: 0)).map(\.operation) == [.register])
    }

    @Test func theTimeBeginsWithATokenToRegisterAndOnlyIfAPurposeIsUnanswered() {
        var machine = machine(purposes: [.alert, .voip, .location])
        #expect(timers(machine.handle(.tokenFailed(.alert), random: 0)) == [])
        #expect(timers(machine.handle(.token(Self.voip), random: 0)) == [Self.timer])
        var last = self.machine(purposes: [.alert, .voip, .location])
        _ = last.handle(.token(Self.voip), random: 0)
        #expect(timers(last.handle(.tokenFailed(.alert), random: 0)) == [Self.timer])
        var silent = self.machine(purposes: [.voip, .location])
        #expect(timers(silent.handle(.token(Self.voip), random: 0)) == [Self.timer])
        var start = self.machine(purposes: [.alert, .activityStart(type: "Ride")])
        #expect(timers(start.handle(.token(Self.alert), random: 0)) == [])
        var absent = self.machine(purposes: [.alert, .voip])
        _ = absent.handle(.noToken(.voip), random: 0)
        #expect(timers(absent.handle(.token(Self.alert), random: 0)) == [])
    }

    @Test func anOpenedAppRegistersAgainOnceADay() {
        var machine = machine()
        _ = machine.handle(.signIn("ada"), random: 0)
        let first = uploads(machine.handle(.token(Self.alert), random: 0))
        let day = Duration.seconds(24 * 60 * 60)
        for _ in 0..<2 {
            let timers = answer(&machine, 200).compactMap { if case .wake(day, let number) = $0 { number } else { nil } }
            #expect(timers.count == 1 && timers.allSatisfy { $0 < 0 })
            #expect(uploads(machine.handle(.opened, random: 0)) == [])
            for timer in timers { #expect(machine.handle(.timeIsUp(timer), random: 0) == []) }
            // The network comes and goes all day.
            #expect(uploads(machine.handle(.retryNow, random: 0)) == [] && machine.isUploaded)
            let again = uploads(machine.handle(.opened, random: 0))
            #expect(again.map(\.operation) == first.map(\.operation))
            #expect(uploads(machine.handle(.opened, random: 0)) == [], "the request is under way")
        }
    }

    @Test func theTimerOfAnEarlierRegistrationMakesANewerOneNotOld() {
        var machine = machine()
        _ = machine.handle(.signIn("ada"), random: 0)
        _ = machine.handle(.token(Self.alert), random: 0)
        let earlier = answer(&machine, 200)
        _ = machine.handle(.signIn("grace"), random: 0)
        _ = answer(&machine, 200)
        for case .wake(_, let number) in earlier where number < 0 { _ = machine.handle(.timeIsUp(number), random: 0) }
        #expect(uploads(machine.handle(.opened, random: 0)) == [])
    }

    @Test func aDeregisteredAppThatIsOpenedRegistersNothing() {
        var machine = machine()
        _ = machine.handle(.signIn("ada"), random: 0)
        _ = machine.handle(.token(Self.alert), random: 0)
        let timers = answer(&machine, 200)
        _ = machine.handle(.deregister, random: 0)
        _ = answer(&machine, 204)
        for case .wake(_, let number) in timers where number < 0 { _ = machine.handle(.timeIsUp(number), random: 0) }
        #expect(uploads(machine.handle(.opened, random: 0)) == [])
    }

    @Test func withoutATokenOfThisLaunchThePatchLeavesTokensAlone() {
        let belief = ServerBelief(existence: .registered, owners: ["ada"], confirmed: nil)
        var machine = machine(belief: belief)
        let sent = uploads(machine.handle(.signIn("grace"), random: 0))
        #expect(sent.map(\.operation) == [.change])
    }

    @Test func theNewestStateWins() {
        var machine = machine()
        _ = machine.handle(.token(Self.alert), random: 0)
        for user in ["ada", "grace", "alan"] { _ = machine.handle(.signIn(user), random: 0) }
        guard case .register(let next)? = uploads(answer(&machine, 200)).first else {
            Issue.record("no registration follows")
            return
        }
        #expect(next.claim.user == "alan")
        #expect(next.expected == .exactly(nil))
        #expect(uploads(answer(&machine, 200)) == [])
    }

    @Test func eachLaunchRegistersThoughNothingChanged() {
        var machine = machine()
        _ = machine.handle(.token(Self.alert), random: 0)
        _ = answer(&machine, 201)
        machine = RegistrationMachine(record: machine.record, credential: nil, rules: machine.rules)
        #expect(uploads(machine.start()) == [])
        #expect(uploads(machine.handle(.token(Self.alert), random: 0)).map(\.operation) == [.register])
    }

    @Test func retryAfterIsObeyedAndNotHurried() {
        var machine = machine()
        _ = machine.handle(.token(Self.alert), random: 0)
        let actions = answer(&machine, 429, "rate_limited", retryAfter: .seconds(120))
        #expect(actions == [.wake(after: .seconds(120.5), number: machine.number)])
        #expect(machine.handle(.retryNow, random: 0) == [])
        #expect(uploads(machine.handle(.timeIsUp(machine.number), random: 0)).count == 1)
    }

    @Test func aSignInOfTheSameUserEndsAnOrdinaryDelay() {
        var machine = machine()
        _ = machine.handle(.signIn("ada"), random: 0)
        _ = machine.handle(.token(Self.alert), random: 0)
        _ = answer(&machine, 503)
        #expect(uploads(machine.handle(.signIn("ada"), random: 0)).map(\.operation) == [.register])
        _ = answer(&machine, 503, retryAfter: .seconds(60))
        #expect(machine.handle(.signIn("ada"), random: 0) == [])

        // As after a session that was over: the backend could not answer.
        machine = self.machine(credentials: true)
        _ = machine.handle(.signIn("ada"), random: 0)
        _ = machine.handle(.token(Self.alert), random: 0)
        _ = machine.handle(.credential(machine.number, .failed), random: 0)
        #expect(machine.phase == .waiting(mayHurry: true))
        _ = machine.handle(.signIn("ada"), random: 0)
        #expect(machine.phase == .fetching(user: "ada"))
    }

    @Test func theNetworkEndsAnOrdinaryDelay() {
        var machine = machine()
        _ = machine.handle(.token(Self.alert), random: 0)
        _ = machine.handle(.answered(machine.number, .lost), random: 0)
        #expect(uploads(machine.handle(.retryNow, random: 0)).count == 1)
    }

    @Test func aDoubtIsStoredBeforeTheRequestLeaves() {
        var machine = machine()
        _ = machine.handle(.signIn("ada"), random: 0)
        let actions = machine.handle(.token(Self.alert), random: 0)
        #expect(actions.first == .save)
        #expect(machine.record.server.owners == [nil, "ada"])
        // A kill now: the next launch knows that ada may be there.
        var next = RegistrationMachine(record: machine.record, credential: nil, rules: machine.rules)
        _ = next.start()
        #expect(uploads(next.handle(.signOut, random: 0)) == [.signOut(.exactly("ada"))])
    }

    // MARK: A launch whose token is not here yet, and whose earlier registrations found no answer

    private func launched(_ owners: [String?]?, credential user: String? = nil, isCredentialed: Bool = false) -> RegistrationMachine {
        var rules = RegistrationMachine.Rules()
        rules.needsCredential = isCredentialed
        var record = RegistrationRecord(installation: UUID(), server: ServerBelief(existence: .unknown, owners: owners, confirmed: nil))
        record.desired.presence = .signedIn("bob")
        let held = user.map { HeldCredential(user: $0, credential: DeviceCredential("psd_1")) }
        return RegistrationMachine(record: record, credential: held, rules: rules)
    }

    @Test(arguments: [200, 409, 401]) func aLaunchSignsOutFormerUsersOnly(status: Int) {
        var machine = launched([nil, "ada", "bob"])
        #expect(uploads(machine.start()) == [.signOut(.exactly("ada"))])
        let actions = answer(&machine, status, status == 409 ? "owner_mismatch" : nil)
        let notices = actions.compactMap { if case .notice(let notice) = $0 { notice } else { nil } }
        // A 401 says that ada's session is over, and nothing of bob's.
        #expect(uploads(actions) == [] && notices == (status == 200 ? [.signedOut] : []))
        guard case .register(let registration)? = uploads(machine.handle(.token(Self.alert), random: 0)).first else {
            Issue.record("bob is not registered")
            return
        }
        #expect(registration.claim.user == "bob")
    }

    @Test func aLaunchThatKnowsNoFormerUserNamesThePresentOne() {
        for var machine in [
            launched(nil), launched(nil, credential: "bob", isCredentialed: true),
            launched([nil, "ada", "bob"], credential: "bob", isCredentialed: true),
        ] {
            guard case .change(let change)? = uploads(machine.start()).first else {
                Issue.record("an earlier user may stay until the token comes")
                continue
            }
            #expect(change.claim.user == "bob" && change.expected == .anyone)
            // The server has no such installation, and so no earlier user.
            #expect(uploads(answer(&machine, 404, "not_found")) == [])
        }
        for owners in [nil, [nil, "ada", "carol", "bob"]] as [[String?]?] {
            var machine = launched(owners, isCredentialed: true)
            _ = machine.start()
            #expect(machine.phase == .fetching(user: "bob"))
        }
        var former = launched([nil, "ada", "bob"], credential: "ada", isCredentialed: true)
        #expect(uploads(former.start()) == [.signOut(.exactly("ada"))])
    }

    @Test func anotherOwnerAtTheServerEndsTheExpectation() {
        var machine = machine(belief: ServerBelief(existence: .registered, owners: ["ada"], confirmed: nil))
        _ = machine.handle(.signIn("ada"), random: 0)
        _ = machine.handle(.token(Self.alert), random: 0)
        _ = answer(&machine, 200)
        guard case .register(let first) = machine.phase.upload, case .exactly = first.expected else {
            Issue.record("the first registration expects nobody")
            return
        }
        guard case .register(let second)? = uploads(answer(&machine, 409, "owner_mismatch")).first else {
            Issue.record("no second registration")
            return
        }
        #expect(second.expected == .anyone)
    }

    @Test func aRefusalWaitsForAChange() {
        var machine = machine()
        _ = machine.handle(.token(Self.alert), random: 0)
        let actions = answer(&machine, 400, "invalid_request")
        #expect(actions.contains(.notice(.refused(operation: .register, status: 400, code: "invalid_request"))))
        #expect(machine.phase == .resting)
        #expect(uploads(machine.handle(.signIn("ada"), random: 0)).count == 1)
    }

    @Test func aRefusalOfAnOlderStateIsNoRefusalOfTheNewer() {
        var machine = machine()
        _ = machine.handle(.token(Self.alert), random: 0)
        _ = machine.handle(.signIn("ada"), random: 0)
        #expect(uploads(answer(&machine, 400, "invalid_request")).map(\.operation) == [.register])

        machine = self.machine(credentials: true)
        _ = machine.handle(.token(Self.alert), random: 0)
        #expect(machine.phase == .fetching(user: nil))
        _ = machine.handle(.signIn("ada"), random: 0)
        _ = machine.handle(.credential(machine.number, .refused), random: 0)
        #expect(machine.phase == .fetching(user: "ada"))
    }

    @Test func aBackendThatEndedTheSessionAsksForASignIn() {
        var machine = machine()
        _ = machine.handle(.signIn("ada"), random: 0)
        _ = machine.handle(.token(Self.alert), random: 0)
        #expect(answer(&machine, 401).contains(.notice(.signInRequired(user: "ada"))))
        #expect(uploads(machine.handle(.timeIsUp(machine.number), random: 0)) == [])
        #expect(uploads(machine.handle(.signIn("ada"), random: 0)).map(\.operation) == [.register], "she has signed in again")
    }

    @Test func anAnswerThatComesTooLateCountsForNothing() {
        var machine = machine()
        _ = machine.handle(.token(Self.alert), random: 0)
        let old = machine.number
        _ = machine.handle(.timeIsUp(old), random: 0)
        #expect(machine.handle(.answered(old, .response(status: 200, code: nil, retryAfter: nil)), random: 0) == [])
        _ = machine.handle(.retryNow, random: 0)
        #expect(machine.handle(.answered(old, .response(status: 200, code: nil, retryAfter: nil)), random: 0) == [])
        #expect(machine.stated == nil)
    }

    // MARK: Credentials

    private func credentialed() -> RegistrationMachine {
        var machine = machine(credentials: true)
        _ = machine.handle(.signIn("ada"), random: 0)
        _ = machine.handle(.token(Self.alert), random: 0)
        _ = machine.handle(.credential(machine.number, .granted(DeviceCredential("psd_1"))), random: 0)
        return machine
    }

    @Test func anExpiredCredentialIsRenewedOnceForEachAttempt() {
        var machine = credentialed()
        #expect(answer(&machine, 401, "credential_expired").contains(.fetchCredential(user: "ada", number: machine.number)))
        _ = machine.handle(.credential(machine.number, .granted(DeviceCredential("psd_2"))), random: 0)
        _ = answer(&machine, 401, "credential_expired")
        #expect(machine.phase == .waiting(mayHurry: true))
        let retried = machine.handle(.timeIsUp(machine.number), random: 0)
        #expect(retried.contains(.fetchCredential(user: "ada", number: machine.number)))
    }

    @Test func anExpiredCredentialStillSignsOut() {
        var machine = credentialed()
        _ = answer(&machine, 200)
        _ = machine.handle(.token(Self.alert), random: 0)
        _ = answer(&machine, 401, "credential_expired")
        _ = machine.handle(.credential(machine.number, .failed), random: 0)
        let actions = machine.handle(.signOut, random: 0)
        #expect(uploads(actions) == [.signOut(.exactly("ada"))])
        #expect(actions.contains { if case .send(_, DeviceCredential("psd_1"), _) = $0 { true } else { false } })
        _ = answer(&machine, 200)
        #expect(machine.credential == nil)
    }

    /// The backend has signed ada out everywhere but here (`except`). Its answer to the registration is 403, and it would be 200 to a
    /// sign-out.
    @Test func aRevokedCredentialStillSignsOut() {
        var machine = credentialed()
        _ = answer(&machine, 200)
        _ = machine.handle(.profile(PushProfile(appTags: ["t"])), random: 0)
        #expect(answer(&machine, 403, "credential_revoked").contains(.fetchCredential(user: "ada", number: machine.number)))
        _ = machine.handle(.credential(machine.number, .failed), random: 0)
        let actions = machine.handle(.signOut, random: 0)
        #expect(uploads(actions) == [.signOut(.exactly("ada"))])
        #expect(actions.contains { if case .send(_, DeviceCredential("psd_1"), _) = $0 { true } else { false } })
        #expect(answer(&machine, 200).contains(.notice(.signedOut)) && machine.credential == nil)
    }

    @Test func aSignOutWhoseCredentialIsLostGoesWithoutTheUsersName() {
        var machine = credentialed()
        _ = answer(&machine, 200)
        #expect(uploads(machine.handle(.signOut, random: 0)).map(\.operation) == [.signOut])
        _ = answer(&machine, 401, "unauthenticated")
        #expect(machine.phase == .fetching(user: "ada"))
        let refused = machine.handle(.credential(machine.number, .refused), random: 0)
        #expect(machine.phase == .fetching(user: nil))
        #expect(!refused.contains { if case .notice = $0 { true } else { false } })
        let sent = machine.handle(.credential(machine.number, .granted(DeviceCredential("psd_2"))), random: 0)
        #expect(uploads(sent).map(\.operation) == [.register] && machine.phase.upload.map { "\($0)" }?.contains("ada") == false)
        #expect(answer(&machine, 200).contains(.notice(.registered(user: nil))))
        #expect(machine.isUploaded)
    }

    @Test func theFormerUsersCredentialSignsOutBeforeTheNewUserHasOne() {
        var machine = credentialed()
        _ = answer(&machine, 200)
        #expect(uploads(machine.handle(.signIn("grace"), random: 0)) == [.signOut(.exactly("ada"))])
        #expect(answer(&machine, 200).contains(.fetchCredential(user: "grace", number: machine.number)))
    }

    @Test func aCredentialThatIsLeftOverSignsItsUserOut() {
        // After the restore of an older backup: the record says that no user is at the server, and the keychain knows better.
        var rules = RegistrationMachine.Rules()
        rules.needsCredential = true
        let record = RegistrationRecord(installation: UUID(), server: ServerBelief(existence: .registered, owners: [nil], confirmed: nil))
        let held = HeldCredential(user: "ada", credential: DeviceCredential("psd_1"))
        var machine = RegistrationMachine(record: record, credential: held, rules: rules)
        #expect(uploads(machine.start()) == [.signOut(.anyone)])
        _ = answer(&machine, 403, "credential_revoked")
        #expect(machine.credential == nil)
    }

    /// As after the restore of an old backup: the record knows no user, or another one than the server has.
    @Test(arguments: [ServerBelief.new, ServerBelief(existence: .registered, owners: ["ada"], confirmed: nil)])
    func aDeregistrationEndsAUserWhomTheRecordDoesNotKnow(belief: ServerBelief) {
        var machine = machine(credentials: true, belief: belief)
        _ = machine.handle(.deregister, random: 0)
        func grant(_ text: String) -> [Upload] {
            uploads(machine.handle(.credential(machine.number, .granted(DeviceCredential(text))), random: 0))
        }
        #expect(grant("psd_1").map(\.operation) == [.deregister])
        var asked = answer(&machine, 403, "credential_revoked")
        if belief != .new {
            // The credential may still sign out the user whom the record knows.
            #expect(uploads(asked) == [.signOut(.exactly("ada"))])
            _ = answer(&machine, 403, "credential_revoked")
            #expect(grant("psd_2").map(\.operation) == [.deregister])
            asked = answer(&machine, 403, "credential_revoked")
        }
        #expect(asked.contains { if case .fetchCredential(nil, _) = $0 { true } else { false } })
        guard case .change(let change)? = grant("psd_3").first else {
            Issue.record("the client does not state that no user is signed in")
            return
        }
        #expect(change.claim.user == nil && change.expected == .anyone)
        #expect(uploads(answer(&machine, 200)).map(\.operation) == [.deregister])
        #expect(answer(&machine, 200).contains(.notice(.deregistered)))
    }

    // MARK: Receipts

    private func receipt(
        _ event: PushReceipt.Event = .shown, _ source: PushSource = PushSource(notification: UUID(), job: 0)
    ) -> PushReceipt {
        PushReceipt(source: source, event: event, at: Date(timeIntervalSince1970: 0))
    }

    @Test func receiptsWaitForOthers() {
        var machine = machine()
        let first = machine.handle(.receipt(receipt()), random: 0)
        guard case .wake(let delay, let number)? = first.last else {
            Issue.record("no timer")
            return
        }
        #expect(delay == .seconds(30))
        #expect(machine.handle(.receipt(receipt()), random: 0) == [.save])
        guard case .receipts(let sent)? = uploads(machine.handle(.timeIsUp(number), random: 0)).first else {
            Issue.record("nothing is sent")
            return
        }
        #expect(sent.count == 2)
        #expect(answer(&machine, 200) == [.save])
        #expect(machine.record.receipts.pending.isEmpty)
    }

    @Test func aHundredReceiptsGoAtOnce() {
        var machine = machine()
        for _ in 0..<99 { #expect(uploads(machine.handle(.receipt(receipt()), random: 0)) == []) }
        #expect(uploads(machine.handle(.receipt(receipt()), random: 0)).count == 1)
        _ = machine.handle(.receipt(receipt()), random: 0)
        // The rest follows: there is a connection now.
        guard case .receipts(let rest)? = uploads(answer(&machine, 200)).first else {
            Issue.record("the rest stays")
            return
        }
        #expect(rest.count == 1)
    }

    @Test func aReceiptCountsOnce() {
        var machine = machine()
        let source = PushSource(notification: UUID(), job: 0)
        _ = machine.handle(.receipt(receipt(.shown, source)), random: 0)
        #expect(machine.handle(.receipt(receipt(.shown, source)), random: 0) == [])
        _ = machine.handle(.receipt(receipt(.opened, source)), random: 0)
        #expect(machine.record.receipts.pending.count == 2)
        _ = machine.handle(.retryNow, random: 0)
        _ = answer(&machine, 200)
        #expect(machine.handle(.receipt(receipt(.shown, source)), random: 0) == [])
    }

    @Test func refusedReceiptsDoNotComeAgain() {
        var machine = machine()
        _ = machine.handle(.receipt(receipt()), random: 0)
        _ = machine.handle(.retryNow, random: 0)
        #expect(
            answer(&machine, 400, "invalid_request").contains(.notice(.refused(operation: .receipts, status: 400, code: "invalid_request")))
        )
        #expect(machine.record.receipts.pending.isEmpty)
        #expect(!machine.isRefused)
    }

    @Test func receiptsOutliveAKill() throws {
        var machine = machine()
        _ = machine.handle(.receipt(receipt()), random: 0)
        let data = try JSONEncoder().encode(machine.record)
        var next = RegistrationMachine(
            record: try JSONDecoder().decode(RegistrationRecord.self, from: data), credential: nil, rules: machine.rules)
        #expect(uploads(next.start()).map(\.operation) == [.receipts])
    }

    @Test func theOldestReceiptGoesWhenTheBookIsFull() {
        var book = ReceiptBook()
        let first = receipt()
        _ = book.add(first)
        for _ in 0..<ReceiptBook.capacity { _ = book.add(receipt()) }
        #expect(book.pending.count == ReceiptBook.capacity)
        #expect(!book.pending.contains(first))
    }
}

extension RegistrationMachine.Phase {
    var upload: Upload? {
        if case .sending(let upload) = self { upload } else { nil }
    }
}
