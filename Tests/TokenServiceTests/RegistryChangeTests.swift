import PushModel
import Testing

@testable import TokenServiceApps
@testable import TokenServiceRegistry

/// The rules as values in and values out, without a database.
@Suite("Each change of the registry")
struct RegistryChangeTests {
    private static let now: Int64 = 1_000_000
    private static let appID: App.ID = 7

    private let app: App

    init() throws {
        var properties = AppProperties(bundleID: "com.example.shop", devicePolicy: .multi, environments: [.production, .sandbox])
        properties.staleAfterDays = 30
        properties.removesStale = true
        app = App(id: Self.appID, slug: try #require(AppSlug("shop")), properties)
    }

    private static func key(_ number: Int) -> InstallationKey { InstallationKey(app: appID, id: installation(number)) }

    private static func row(
        _ number: Int, _ owner: String?, reason: SignOutReason? = nil, registeredAt: Int64 = 10, deregisteredAt: Int64? = nil,
        staleSince: Int64? = nil
    ) -> InstallationState {
        InstallationState(
            key: key(number), owner: owner, epoch: 3, signedOutReason: reason, profile: InstallationProfile(), createdAt: 1,
            registeredAt: registeredAt, deregisteredAt: deregisteredAt, staleSince: staleSince, isStored: true)
    }

    private static func held(
        _ id: Int64, _ number: Int, at holder: Int, in environment: APNsEnvironment = .production, registeredAt: Int64 = 10,
        retired: TokenState.RetiredReason? = nil, quarantinedAt: Int64? = nil, provenAt: Int64? = nil
    ) throws -> TokenState {
        let value = try #require(DeviceToken(hex: token(number)))
        return TokenState(
            id: id, app: appID, named: RegisteredToken(token: value, environment: environment, purpose: .alert),
            installation: installation(holder), registeredAt: registeredAt, retired: retired.map { .init(at: 20, reason: $0) },
            quarantinedAt: quarantinedAt, provenAt: provenAt)
    }

    private static func answer(at holder: Int, status: Int = 410) -> OutcomeEvent.Delivery {
        OutcomeEvent.Delivery(
            id: installation(900), notification: installation(901), installation: installation(holder), attempt: 1, status: status,
            reason: "Unregistered", timestamp: 15)
    }

    private static func batch(
        _ rows: [InstallationState], _ tokens: [TokenState] = [], moves: [InstallationKey: Set<PushID>] = [:]
    ) -> RegistryBatch {
        RegistryBatch(installations: rows, tokens: tokens, predecessors: moves, now: now)
    }

    private static func reasons(_ batch: RegistryBatch) -> [TokenState.RetiredReason?] { batch.tokens.map { $0.retired?.reason } }

    @Test("A sign-out ends the epoch and keeps the tokens") func plainSignOut() throws {
        var batch = Self.batch([Self.row(1, "ada")], [try Self.held(1, 1, at: 1)])
        let result = try batch.apply(.signOut(.installation(installation(1)), expecting: .anyone), of: app)
        #expect(result.installations == [Self.key(1)] && result.fenced == [Self.key(1)])
        #expect(batch.installations[Self.key(1)]?.owner == nil && batch.installations[Self.key(1)]?.epoch == 4)
        #expect(batch.installations[Self.key(1)]?.signedOutReason == .logout)
        #expect(batch.tokens[0].isActive)
        #expect(batch.history.map(\.event) == [.signedOut] && batch.history[0].ownerEpoch == 3 && batch.history[0].owner == "ada")
        let again = try batch.apply(.signOut(.installation(installation(1)), expecting: .exactly("grace")), of: app)
        #expect(again.installations.isEmpty && batch.history.count == 1)
    }

    @Test("The registry refuses a sign-out if another user is signed in") func refusedSignOut() throws {
        var batch = Self.batch([Self.row(1, "ada")])
        let result = try batch.apply(.signOut(.installation(installation(1)), expecting: .exactly("grace")), of: app)
        #expect(result.refusal is OwnerMismatch && result.installations.isEmpty)
        #expect(batch.installations[Self.key(1)]?.owner == "ada" && batch.fenced.isEmpty && batch.history.isEmpty)
        #expect(batch.noted == [SignOutMoments.Name("grace", at: Self.key(1))])
    }

    @Test("A sign-out of a user leaves others alone and reaches back over moves") func signOutOfUser() throws {
        var batch = Self.batch(
            [Self.row(1, "ada"), Self.row(2, "grace"), Self.row(3, "ada")], moves: [Self.key(1): [installation(2)]])
        let ids = [1, 2].map { installation($0) }
        let result = try batch.apply(.signOut(.user("ada", among: ids), expecting: .anyone), of: app)
        #expect(result.installations == [Self.key(1)])
        #expect(result.fenced == [Self.key(1), Self.key(2)])
        #expect(batch.installations[Self.key(3)]?.owner == "ada")
    }

    @Test("A fence without the moves is incomplete") func missingMoves() throws {
        var batch = RegistryBatch(installations: [Self.row(1, "ada")], tokens: [], now: Self.now)
        _ = try batch.apply(.signOut(.installation(installation(1)), expecting: .anyone), of: app)
        #expect(batch.isIncomplete)
    }

    @Test("A token signs all its holders out and deregisters those where it is active") func changesByToken() throws {
        let rows = [Self.row(1, "ada"), Self.row(2, "grace")]
        let tokens = [try Self.held(1, 1, at: 1), try Self.held(2, 1, at: 2, in: .sandbox, retired: .replaced)]
        let value = try #require(DeviceToken(hex: token(1)))
        var signedOut = Self.batch(rows, tokens)
        #expect(
            try signedOut.apply(.signOut(.token(value, nil), expecting: .anyone), of: app).installations == [Self.key(1), Self.key(2)])
        var deregistered = Self.batch(rows, tokens)
        #expect(try deregistered.apply(.deregister(.token(value, nil), expecting: .anyone), of: app).installations == [Self.key(1)])
        #expect(Self.reasons(deregistered) == [.deregistered, .replaced])
        #expect(deregistered.installations[Self.key(1)]?.deregisteredAt == Self.now)
    }

    @Test("The registry removes only stale installations that are marked and still unseen") func staleInstallations() throws {
        var batch = Self.batch(
            [Self.row(1, "ada"), Self.row(2, "ada", staleSince: 5), Self.row(3, "ada", registeredAt: 100, staleSince: 5)],
            [try Self.held(1, 1, at: 2)])
        let ids = [1, 2, 3].map { installation($0) }
        #expect(try batch.apply(.removeStale(ids, unseenSince: 50), of: app).installations == [Self.key(2)])
        #expect(Self.reasons(batch) == [.stale])
        #expect(batch.history.map(\.reason) == ["stale"])
        let marked = try batch.apply(.markStale(ids, unseenSince: 50), of: app)
        #expect(marked.installations == [Self.key(1)] && marked.fenced.isEmpty)
    }

    @Test("An erasure takes what the user owns or left, and nothing else") func erasedInstallations() throws {
        var batch = Self.batch(
            [
                Self.row(1, "ada"), Self.row(2, "grace"), Self.row(3, nil, reason: .logout), Self.row(4, nil, reason: .logout),
                Self.row(5, nil, reason: .erased, deregisteredAt: 5),
            ], [try Self.held(1, 1, at: 1), try Self.held(2, 2, at: 2)])
        let ids = (1...5).map { installation($0) }
        let result = try batch.apply(
            .erase(user: "ada", installations: ids, left: [installation(2), installation(3), installation(5)]), of: app)
        #expect(result.installations == [Self.key(1), Self.key(3)] && result.tokens == 1)
        #expect(batch.tokens.map(\.isDeleted) == [true, false])
        #expect(batch.history.isEmpty)
    }

    @Test("A registration after an answer keeps its token", arguments: [(9, true), (10, false)] as [(Int64, Bool)])
    func laterRegistration(early: Int64, isKept: Bool) throws {
        var batch = Self.batch([], [try Self.held(1, 1, at: 1)])
        let change = RegistryChange.retire(token: 1, .gone, registeredUntil: early, in: .production, answer: Self.answer(at: 1))
        #expect(try batch.apply(change, of: app).tokens == (isKept ? 0 : 1))
        #expect(batch.tokens[0].isActive == isKept)
        #expect(batch.history.map(\.apnsTimestamp) == (isKept ? [] : [15]))
    }

    @Test("A rejection in an environment that the token is not registered for retires nothing") func otherEnvironment() throws {
        var batch = Self.batch([], [try Self.held(1, 1, at: 1, in: .sandbox)])
        let change = RegistryChange.retire(token: 1, .rejected, registeredUntil: 50, in: .production, answer: Self.answer(at: 1))
        #expect(try batch.apply(change, of: app).tokens == 0 && batch.tokens[0].isActive)
    }

    @Test("A correction moves the token to the environment that accepted it") func correctedToken() throws {
        var batch = Self.batch([], [try Self.held(1, 1, at: 1)])
        let change = RegistryChange.correct(token: 1, to: .sandbox, answer: Self.answer(at: 1, status: 200))
        #expect(try batch.apply(change, of: app).tokens == 1)
        #expect(batch.tokens[0].environment == .sandbox && batch.tokens[0].isProven && batch.tokens[0].isActive)
        #expect(batch.history.map(\.event) == [.environmentCorrected] && batch.history[0].reason == "was_production")
        #expect(try batch.apply(change, of: app).tokens == 0)
    }

    @Test("A correction revives the row that is there and yields to another token") func revivedRow() throws {
        var revived = Self.batch(
            [], [try Self.held(1, 1, at: 1, registeredAt: 30), try Self.held(2, 1, at: 1, in: .sandbox, retired: .replaced)])
        let change = RegistryChange.correct(token: 1, to: .sandbox, answer: Self.answer(at: 1, status: 200))
        _ = try revived.apply(change, of: app)
        #expect(Self.reasons(revived) == [.replaced, nil] && revived.tokens[1].registeredAt == 30 && revived.tokens[1].isProven)
        #expect(revived.history.map(\.event) == [.environmentCorrected] && revived.history[0].token?.id == 2)
        var taken = Self.batch([], [try Self.held(1, 1, at: 1), try Self.held(2, 2, at: 1, in: .sandbox)])
        _ = try taken.apply(change, of: app)
        #expect(Self.reasons(taken) == [.replaced, nil] && taken.history.map(\.event) == [.tokenReplaced])
        var moved = Self.batch([], [try Self.held(1, 1, at: 2)])
        #expect(try moved.apply(change, of: app).tokens == 0)
    }

    @Test("The registry quarantines only a rejected token") func rejectedToken() throws {
        var batch = Self.batch([], [try Self.held(1, 1, at: 1, retired: .rejected), try Self.held(2, 2, at: 1, retired: .gone)])
        #expect(batch.apply(toTokens: [.quarantine(token: 1), .quarantine(token: 2), .quarantine(token: 1), .quarantine(token: 9)]) == 1)
        #expect(batch.tokens.map(\.quarantinedAt) == [Self.now, nil])
    }

    @Test("Of two tokens in quarantine from one place, the later one comes back") func laterToken() throws {
        let tokens = [
            try Self.held(1, 1, at: 1, retired: .rejected, quarantinedAt: 30),
            try Self.held(2, 2, at: 1, registeredAt: 11, retired: .rejected, quarantinedAt: 30),
        ]
        for order in [[1, 2], [2, 1]] as [[Int64]] {
            var batch = Self.batch([Self.row(1, "ada")], tokens)
            #expect(batch.apply(toTokens: order.map { .restore(token: $0) }) == 1)
            #expect(Self.reasons(batch) == [.rejected, nil] && batch.tokens.allSatisfy { $0.quarantinedAt == nil })
        }
    }

    @Test("No token comes back where something newer is") func newerState() throws {
        let quarantined = try Self.held(1, 1, at: 1, retired: .rejected, quarantinedAt: 30)
        let batches = [
            Self.batch([Self.row(1, "ada")], [quarantined, try Self.held(2, 2, at: 1)]),
            Self.batch([Self.row(1, "ada")], [quarantined, try Self.held(2, 1, at: 2, in: .sandbox)]),
            Self.batch([Self.row(1, nil, deregisteredAt: 5)], [quarantined]),
        ]
        for var batch in batches {
            #expect(batch.apply(toTokens: [.restore(token: 1)]) == 0)
            #expect(batch.tokens[0].retired?.reason == .rejected && batch.tokens[0].quarantinedAt == nil)
        }
    }
}
