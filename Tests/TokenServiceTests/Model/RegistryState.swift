import Postgres
import PushModel
import StrictJSON
import Testing
import TokenService

/// What stands in the database after a round, in the model's words, and checked against what the API shows of it.
struct RegistryState: Sendable {
    private(set) var model: RegistryModel
    /// When each token was registered, UNIX milliseconds.
    private(set) var moments = [Int64?](repeating: nil, count: TokenName.count)
    /// The number of each token's row.
    private(set) var rows = [Int64?](repeating: nil, count: TokenName.count)

    /// - Parameters:
    ///   - now: When the round began: what was registered since was registered in this round.
    ///   - before: What was true then: rows that it does not know were made in this round.
    init(_ world: RegistryWorld, after now: Int64, before: RegistryModel) async throws {
        model = RegistryModel(policy: .multi)
        let (installations, tokens) = try await world.running.pool.session { session in
            let installations: [(PushID, RegistryModel.Installation)] = try session.execute(Self.installations(of: world.appID)).map {
                row in
                (
                    try row["id"],
                    RegistryModel.Installation(
                        owner: Self.user(try row["owner"]), epoch: try row["owner_epoch"], isRegistered: try row["is_registered"],
                        locale: try row["locale"], isShell: try row["is_shell"])
                )
            }
            let tokens: [(TokenName, PushID, Int64, String?, Bool, Bool, Int64)] = try session.execute(Self.tokens(of: world.appID)).map {
                row in
                (
                    try Self.name(row), try row["installation"], try row.milliseconds("registered_at"), try row["retired_reason"],
                    try row["is_proven"], try row["is_quarantined"], try row["id"]
                )
            }
            return (installations, tokens)
        }
        for (id, installation) in installations { model.installations[try #require(Self.number(of: id))] = installation }
        for (name, holder, at, retired, isProven, isQuarantined, row) in tokens {
            moments[name.index] = at
            rows[name.index] = row
            model.tokens[name.index] = RegistryModel.Token(
                installation: try #require(Self.number(of: holder)), registeredAt: at > now ? RegistryModel.thisRound : at,
                retired: retired, isProven: isProven, isQuarantined: isQuarantined,
                row: before.tokens[name.index]?.row == row ? row : 0)
        }
        try await compareWithAPI(world)
    }

    /// Every record as a client reads it.
    private func compareWithAPI(_ world: RegistryWorld) async throws {
        for number in model.installations.indices {
            let answer = try await world.client.get("/v1/apps/\(world.app.text)/installations/\(world.id(number))")
            guard let installation = model.installations[number], installation.isRegistered else {
                #expect(answer.status == 404)
                continue
            }
            let expected = Record(user: installation.owner, epoch: installation.epoch, tokens: model.tokens(of: number))
            #expect(answer.status == 200)
            #expect(Record(answer.json) == expected)
        }
    }

    /// What the API shows of one installation.
    struct Record: Equatable {
        var user: Int?
        var epoch: Int64
        var tokens: Set<RegistryAnswer.TokenState>

        init(user: Int?, epoch: Int64, tokens: Set<RegistryAnswer.TokenState>) {
            self.user = user
            self.epoch = epoch
            self.tokens = tokens
        }

        init?(_ json: JSONValue) {
            guard let epoch = json.number("owner_epoch"), let listed = json["tokens"]?.arrayValue else { return nil }
            self.init(user: json.text("user").flatMap { RegistryState.user($0) }, epoch: epoch, tokens: [])
            for token in listed {
                guard let name = Self.name(token) else { return nil }
                let isRetired = token.text("state") == "retired"
                tokens.insert(.init(name: name, retired: isRetired ? token.text("retired_reason") : nil))
            }
        }

        private static func name(_ token: JSONValue) -> TokenName? {
            let number = (0..<TokenName.numbers).first { hint($0 + 1) == token.text("hint") }
            let place = TokenName.places.firstIndex { $0.0 == token.text("environment") && $0.1 == token.text("purpose") }
            guard let number, let place else { return nil }
            return TokenName(number: number, place: place)
        }
    }

    // MARK: From the tables' words to the model's

    static func number(of id: PushID) -> Int? {
        let number = Int(id.low & 0xf)
        return number < RegistryModel.installationCount ? number : nil
    }

    static func user(_ name: String?) -> Int? { name.flatMap { RegistryModel.users.firstIndex(of: $0) } }

    /// Of an alert.
    static func name(_ delivery: PushJob.Delivery) -> TokenName? {
        guard let last = delivery.token.bytes.last,
            let place = TokenName.places.firstIndex(where: { $0.0 == delivery.environment.rawValue && $0.1 == "alert" })
        else { return nil }
        return TokenName(number: Int(last) - 1, place: place)
    }

    /// Columns: token, environment, purpose.
    private static func name(_ row: PostgresRow) throws -> TokenName {
        let (token, environment, purpose): ([UInt8], String, String) = (try row["token"], try row["environment"], try row["purpose"])
        let number = Int(try #require(token.last)) - 1
        let place = try #require(TokenName.places.firstIndex { $0.0 == environment && $0.1 == purpose })
        return TokenName(number: number, place: place)
    }

    private static func installations(of app: Int64) -> PostgresQuery {
        """
        SELECT id, owner, owner_epoch, deregistered_at IS NULL AS is_registered, locale,
            deregistered_at IS NOT NULL AND signed_out_reason IS NOT DISTINCT FROM 'erased' AS is_shell
        FROM installations WHERE app_id = \(app)
        """
    }

    private static func tokens(of app: Int64) -> PostgresQuery {
        """
        SELECT token, environment, purpose, installation, registered_at, retired_reason, proven_at IS NOT NULL AS is_proven,
            quarantined_at IS NOT NULL AS is_quarantined, id
        FROM tokens WHERE app_id = \(app)
        """
    }
}
