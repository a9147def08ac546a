package import Postgres
package import PushModel

/// Reads what a number of changes concern, under locks, and writes what they made of it. Two round trips, whatever their number.
package struct RegistryBatchStore {
    private let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    package struct Loaded {
        package var batch: RegistryBatch
        /// Committed earlier and not known to be on the control stream: an answer waits for them as well.
        package var openFences: [Fence]
    }

    /// Locks in the order that all keep (``RegistryLock``): names, then installations. Token rows are locked only to be
    /// retired: whoever else changes one holds its name or its installation, and a verdict is overruled by a registration.
    package func load(_ changes: [RegistryChange]) throws -> Loaded {
        let keys = Set(changes.map(\.installation)).sorted()
        let reads = reads(changes, of: keys)
        let answers = try session.pipeline([
            (Self.lockNames, [.int64Array(RegistryLock.keys(of: changes))]), reads.installations, reads.tokens,
            (Self.selectOpenFences, [.int64Array(keys.map(\.app)), .ids(keys.map(\.id))]),
        ])
        let slugs = Dictionary(changes.map { ($0.app.id, $0.app.slug) }, uniquingKeysWith: { first, _ in first })
        let open = try answers[3].map { row in try Self.fence(row, slugs: slugs) }
        let unpublished = Set(open.map(\.key))
        var rows = try answers[1].map { row in try Self.installation(row, unpublished: unpublished) }
        var (tokens, moves) = try Self.tokensAndMoves(answers[2])
        var known: Set<InstallationKey>?
        if reads.areOfOneApp {
            let named = Set(keys)
            known = Set(tokens.lazy.map(\.place.installation).filter { !named.contains($0) })
        }
        moves = try lockPredecessors(moves, of: &rows)
        let batch = RegistryBatch(
            installations: rows, tokens: tokens, predecessors: moves, knownMoves: known, now: try answers[0].only().timestampMilliseconds(1)
        )
        return Loaded(batch: batch, openFences: open.map(\.fence))
    }

    /// Works the changes out, one after another; anew with all moves where it turns out that some are missing.
    package func apply(
        _ changes: [RegistryChange], to loaded: RegistryBatch
    ) throws -> (batch: RegistryBatch, results: [Result<RegistryChange.Result, any Error>]) {
        var batch = loaded
        var results = changes.map { change in Result { try batch.apply(change) } }
        guard !batch.unread.isEmpty else { return (batch, results) }
        batch = try completed(loaded)
        results = changes.map { change in Result { try batch.apply(change) } }
        return (batch, results)
    }

    /// All moves that lead to the batch's installations, for one that found out that it needs them (``RegistryBatch/unread``).
    /// - Parameter batch: As it was loaded.
    private func completed(_ batch: RegistryBatch) throws -> RegistryBatch {
        var rows = Array(batch.installations.values)
        let keys = rows.map(\.key)
        let found = try Self.moves(session.execute(Self.selectMoves, Self.concerned(keys)))
        let moves = try lockPredecessors(found, of: &rows)
        return RegistryBatch(installations: rows, tokens: batch.tokens, predecessors: moves, now: batch.now)
    }

    private struct Reads {
        var installations: RegistryBatch.Command
        var tokens: RegistryBatch.Command
        /// Then not all moves are read.
        var areOfOneApp: Bool
    }

    private func reads(_ changes: [RegistryChange], of keys: [InstallationKey]) -> Reads {
        let users = Set(changes.compactMap { change in change.onlyInstallationOf.map { NamedUser(app: change.app.id, name: $0) } })
        if users.isEmpty, let app = keys.first?.app, app == keys.last?.app {
            let tokens = Set(changes.flatMap(\.namedTokens))
            let concerned: [PostgresValue] = [.int64(app), .ids(keys.map(\.id)), .bytesArray(tokens.map(\.bytes))]
            return Reads(installations: (Self.lockOfOneApp, concerned), tokens: (Self.selectTokensOfOneApp, concerned), areOfOneApp: true)
        }
        let tokens = Set(changes.flatMap { change in change.namedTokens.map { NamedToken(app: change.app.id, token: $0) } })
        let concerned = Self.concerned(keys, tokens: Array(tokens), users: Array(users))
        return Reads(
            installations: (Self.lockInstallations, concerned), tokens: (Self.selectTokensAndMoves, concerned), areOfOneApp: false)
    }

    /// For the statements that are not of one app.
    private static func concerned(_ keys: [InstallationKey], tokens: [NamedToken] = [], users: [NamedUser] = []) -> [PostgresValue] {
        [
            .int64Array(keys.map(\.app)), .ids(keys.map(\.id)), .int64Array(tokens.map(\.app)), .bytesArray(tokens.map(\.token.bytes)),
            .int64Array(users.map(\.app)), .textArray(users.map(\.name)),
        ]
    }

    /// Locks what moves lead to and is not locked yet, because the move was committed while the locks were waited for. Nearly always
    /// that is nothing. These locks come out of order: in the worst case PostgreSQL ends one of two transactions, and it runs again.
    private func lockPredecessors(
        _ found: [InstallationKey: Set<PushID>], of rows: inout [InstallationState]
    ) throws -> [InstallationKey: Set<PushID>] {
        var moves = found
        while !moves.isEmpty {
            let known = Set(rows.map(\.key))
            let reached = Set(moves.flatMap { move in move.value.map { InstallationKey(app: move.key.app, id: $0) } })
            let missing = reached.subtracting(known).sorted()
            guard !missing.isEmpty else { return moves }
            let concerned = Self.concerned(missing)
            let answers = try session.pipeline([(Self.lockInstallations, concerned), (Self.selectMoves, concerned)])
            rows += try answers[0].map { row in try Self.installation(row, unpublished: []) }.filter { !known.contains($0.key) }
            moves.merge(try Self.moves(answers[1])) { $0.union($1) }
            // The foreign keys of token_moves make sure of it; without this a missing row would be asked for for ever.
            guard missing.allSatisfy({ key in rows.contains { $0.key == key } }) else { throw CorruptRow(table: "token_moves") }
        }
        return moves
    }

    /// Writes what changed and commits, in one round trip: nothing may follow in the transaction.
    /// - Throws: ``VerdictBetween``.
    /// - Returns: the fences that were written, by installation.
    package func save(_ batch: RegistryBatch, slugs: [App.ID: AppSlug]) throws -> [InstallationKey: Fence] {
        try lockRetiring(batch)
        let fenced = batch.fenced.sorted()
        var commands: [(PostgresStatement, [PostgresValue])] = []
        if !fenced.isEmpty {
            let epochs = fenced.map { batch.installations[$0]?.epoch ?? 1 }
            commands.append((Self.deleteMoves, [.int64Array(fenced.map(\.app)), .ids(fenced.map(\.id))]))
            commands.append(
                (
                    Self.insertFences,
                    [.int64Array(fenced.map(\.app)), .ids(fenced.map(\.id)), .int64Array(epochs), .timestamp(milliseconds: batch.now)]
                ))
        }
        // Fences refer to installations, so new ones come before; nothing new is ever fenced.
        let installations = batch.installationWrites
        commands = installations + commands + batch.tokenWrites + batch.moveWrites
        if !batch.history.isEmpty { commands.append((HistoryStore.append, HistoryStore.parameters(batch.history))) }
        guard !commands.isEmpty else { return [:] }
        let answers = try session.commit(with: commands)
        guard !fenced.isEmpty else { return [:] }
        var fences: [InstallationKey: Fence] = [:]
        for row in answers[installations.count + 1] {
            let (key, fence) = try Self.fence(row, slugs: slugs)
            fences[key] = fence
        }
        return fences
    }
}

/// APNs' word on a token that the batch wants to retire came after the batch was read: the reason is another one, and history has it.
struct VerdictBetween: Error {}

extension RegistryBatchStore {
    private func lockRetiring(_ batch: RegistryBatch) throws {
        let retiring = batch.tokens.filter { $0.storedPlace != nil && $0.retired != nil }.compactMap(\.id).sorted()
        guard !retiring.isEmpty else { return }
        let alive = try session.execute(Self.lockActive, [.int64Array(retiring)]).count
        if alive < retiring.count { throw VerdictBetween() }
    }

    private struct NamedToken: Hashable {
        var app: App.ID
        var token: DeviceToken
    }

    private struct NamedUser: Hashable {
        let app: App.ID
        let name: String

        static func == (left: NamedUser, right: NamedUser) -> Bool { left.app == right.app && left.name.hasSameBytes(as: right.name) }

        func hash(into hasher: inout Hasher) {
            hasher.combine(app)
            name.utf8.forEach { hasher.combine($0) }
        }
    }

    private static func moves(_ rows: PostgresRows) throws -> [InstallationKey: Set<PushID>] {
        var moves: [InstallationKey: Set<PushID>] = [:]
        for row in rows { moves[InstallationKey(app: try row.int64(0), id: try row.id(1)), default: []].insert(try row.id(2)) }
        return moves
    }

    /// A row is a token (it has an id), a move (it has a predecessor), or both; then the token may come more than once.
    private static func tokensAndMoves(
        _ rows: PostgresRows
    ) throws -> (tokens: [TokenState], moves: [InstallationKey: Set<PushID>]) {
        var tokens: [TokenState] = []
        tokens.reserveCapacity(rows.count)
        var moves: [InstallationKey: Set<PushID>] = [:]
        var withMoves: Set<Int64> = []
        for row in rows {
            let isMove = !(try row.isNull(10))
            if isMove { moves[InstallationKey(app: try row.int64(1), id: try row.id(5)), default: []].insert(try row.id(10)) }
            guard let id = try row.optionalInt64(0) else { continue }
            if isMove, !withMoves.insert(id).inserted { continue }
            tokens.append(try Self.token(row))
        }
        return (tokens, moves)
    }

    private static func fence(_ row: PostgresRow, slugs: [App.ID: AppSlug]) throws -> (key: InstallationKey, fence: Fence) {
        let key = InstallationKey(app: try row.int64(1), id: try row.id(2))
        guard let slug = slugs[key.app] else { throw CorruptRow(table: "fences") }
        let fence = Fence(
            id: try row.int64(0), app: slug, installation: key.id, epochsBelow: try row.int64(3), at: try row.timestampMilliseconds(4))
        return (key, fence)
    }

    private static func installation(_ row: PostgresRow, unpublished: Set<InstallationKey>) throws -> InstallationState {
        let key = InstallationKey(app: try row.int64(0), id: try row.id(1))
        var profile = InstallationProfile()
        profile.locale = try row.optionalText(8)
        profile.timeZone = try row.optionalText(9)
        profile.appVersion = try row.optionalText(10)
        profile.osVersion = try row.optionalText(11)
        profile.deviceModel = try row.optionalText(12)
        profile.tags = try row.textArray(13)
        let epoch = try row.int64(3)
        return InstallationState(
            key: key, owner: try row.optionalText(2), epoch: epoch,
            signedOutReason: try row.optionalText(4).flatMap(SignOutReason.init(rawValue:)),
            throttledUntil: try row.optionalTimestampMilliseconds(5), profile: profile, createdAt: try row.timestampMilliseconds(6),
            registeredAt: try row.timestampMilliseconds(7), deregisteredAt: try row.optionalTimestampMilliseconds(14),
            staleSince: try row.optionalTimestampMilliseconds(15),
            fence: unpublished.contains(key) ? .pending : epoch > 1 ? .effective : .none, isStored: true)
    }

    private static func token(_ row: PostgresRow) throws -> TokenState {
        guard let environment = APNsEnvironment(rawValue: try row.text(2)), let purpose = Purpose(rawValue: try row.text(3)),
            let token = DeviceToken(bytes: try row.bytes(4))
        else { throw CorruptRow(table: "tokens") }
        let reason = try row.optionalText(8).flatMap(TokenState.RetiredReason.init(rawValue:))
        let retirement = try row.optionalTimestampMilliseconds(7).map { TokenState.Retirement(at: $0, reason: reason ?? .removed) }
        return TokenState(
            id: try row.int64(0), app: try row.int64(1), named: RegisteredToken(token: token, environment: environment, purpose: purpose),
            installation: try row.id(5), registeredAt: try row.timestampMilliseconds(6), retired: retirement, isProven: try row.bool(9))
    }
}
