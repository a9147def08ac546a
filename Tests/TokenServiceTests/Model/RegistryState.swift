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
            let installations = try session.execute(Self.installations, [.int64(world.appID)]).map { row in
                (
                    try row.id(0),
                    RegistryModel.Installation(
                        owner: Self.user(try row.optionalText(1)), epoch: try row.int64(2), isRegistered: try row.bool(3),
                        locale: try row.optionalText(4), isShell: try row.bool(5))
                )
            }
            let tokens = try session.execute(Self.tokens, [.int64(world.appID)]).map { row in
                (
                    try Self.name(row, from: 0), try row.id(3), try row.timestampMilliseconds(4), try row.optionalText(5),
                    try row.bool(6), try row.bool(7), try row.int64(8)
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
    static func name(_ row: PostgresRow, from column: Int) throws -> TokenName {
        let (environment, purpose) = (try row.text(column + 1), try row.text(column + 2))
        let number = Int(try #require(try row.bytes(column).last)) - 1
        let place = try #require(TokenName.places.firstIndex { $0.0 == environment && $0.1 == purpose })
        return TokenName(number: number, place: place)
    }

    private static let installations: PostgresStatement = """
        SELECT id, owner, owner_epoch, deregistered_at IS NULL, locale,
            deregistered_at IS NOT NULL AND signed_out_reason IS NOT DISTINCT FROM 'erased'
        FROM installations WHERE app_id = $1
        """
    private static let tokens: PostgresStatement = """
        SELECT token, environment, purpose, installation, registered_at, retired_reason, proven_at IS NOT NULL,
            quarantined_at IS NOT NULL, id
        FROM tokens WHERE app_id = $1
        """
}
