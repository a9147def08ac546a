import Broker
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenServiceSending

/// A receipt belongs to the user whom the delivery was for: by its installation and epoch, an export shows it and an erasure removes it.
@Suite("A delivery that is stopped before it is published names whom it was for", .serialized, .timeLimit(.minutes(5)))
struct StoppedDeliveryTests {
    /// What happens between the acceptance and the publishing.
    enum Change: String, CaseIterable, Sendable {
        case anotherOwner = "Another user signs in"
        case logout = "The user signs out"
        case move = "The token moves to another user's installation"
        case twoMoves = "The token moves to another user's installation, and on to a third one's"
        case anotherOwnerAndMove = "Another user signs in, and the token moves to that user's second installation"

        func happen(_ shop: APITestClient) async throws {
            switch self {
            case .anotherOwner: try await shop.register(installation(1), user: "grace", token: token(1))
            case .logout: _ = try await shop.post("/v1/apps/shop/installations/\(installation(1))/logout")
            case .move: try await shop.register(installation(2), user: "grace", token: token(1))
            case .twoMoves:
                try await shop.register(installation(2), user: "grace", token: token(1))
                try await shop.register(installation(3), user: "eve", token: token(1))
            case .anotherOwnerAndMove:
                try await shop.register(installation(1), user: "grace", token: token(1))
                try await shop.register(installation(2), user: "grace", token: token(1))
            }
        }
    }

    private struct Receipt: Equatable, Sendable {
        var outcome: OutcomeClass
        var reason: String?
        var installation: PushID
        var epoch: Int64
    }

    private static let targets = [#"{"user":"ada"}"#, #"{"installation":"\#(installation(1))"}"#]

    /// A process accepts a notification and cannot publish it. Another one publishes what is left of it after the change.
    /// - Returns: the only receipt, whose installation's present owner is another.
    private static func receipt(
        _ running: RunningService, to target: String, _ shop: APITestClient, change: Change
    ) async throws -> Receipt {
        #expect(try await shop.send(target).json.number("deliveries") == 1)
        try await change.happen(shop)
        try await running.another { _ in
            _ = try await eventually { try await running.count("SELECT count(*) FROM receipts WHERE class IS NOT NULL") == 1 ? true : nil }
        }
        let ofTheOwner = try await running.count(
            """
            SELECT count(*) FROM receipts r JOIN installations i ON i.id = r.installation AND i.owner_epoch = r.owner_epoch
            """)
        #expect(ofTheOwner == 0, "the receipt is of the installation's present epoch")
        return try await running.pool.session { session in
            let row = try session.execute("SELECT class, reason, installation, owner_epoch FROM receipts").only()
            return Receipt(
                outcome: try row["class"], reason: try row["reason"], installation: try row["installation"], epoch: try row["owner_epoch"])
        }
    }

    /// A process that publishes nothing.
    private static let dying = RunningService.Options(
        settings: ["FENCE_TIMEOUT_MS": "100"], without: { $0 is Publisher || $0 is Relay })

    @Test("The installation that had the token at acceptance, in that user's epoch", arguments: Change.allCases, targets)
    func names(change: Change, target: String) async throws {
        try await RunningService.run(Self.dying) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let receipt = try await Self.receipt(running, to: target, shop, change: change)
            #expect(receipt == Receipt(outcome: .fenced, reason: "owner_changed", installation: installation(1), epoch: 1))
        }
    }

    @Test("Not the installation that the token had left shortly before the acceptance") func movedBefore() async throws {
        try await RunningService.run(Self.dying) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(9), user: "bob", token: token(1))
            try await shop.register(installation(1), user: "ada", token: token(1))
            let receipt = try await Self.receipt(running, to: Self.targets[0], shop, change: .logout)
            #expect(receipt == Receipt(outcome: .fenced, reason: "owner_changed", installation: installation(1), epoch: 1))
        }
    }
}
