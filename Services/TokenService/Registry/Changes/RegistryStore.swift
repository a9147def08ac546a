package import Postgres
package import PushModel
package import TokenServiceApps

/// Reads the rows for changes of the registry under locks, and writes the results of ``RegistryBatch``, within one transaction. That is two
/// round trips for any number of changes; a third one if an epoch ends.
///
/// A batch may have changes of several apps. Each carries its app, and rows are found by app and id together.
package struct RegistryStore {
    let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    /// The rows to read of one app.
    package struct Needs: Sendable {
        package var app: App.ID
        package var installations: [PushID]
        /// Their holders are read as well.
        package var tokens: [DeviceToken] = []
        /// All of their installations are read as well.
        package var users: [String] = []
        /// Whose sign-outs are read as well: what can end the credentials of the devices that ask for the changes.
        package var signOuts: [SignOutMoments.Name] = []

        package init(
            app: App.ID, installations: [PushID], tokens: [DeviceToken] = [], users: [String] = [], signOuts: [SignOutMoments.Name] = []
        ) {
            self.app = app
            self.installations = installations
            self.tokens = tokens
            self.users = users
            self.signOuts = signOuts
        }
    }

    package struct Loaded {
        package var batch: RegistryBatch
        /// Open fences of the needed installations: committed earlier and perhaps not on the control stream. An answer waits for them as
        /// well.
        package var openFences: [Fence]
    }

    /// Takes locks in the common order (``RegistryLock``): names, then installations. It locks token rows only to retire or delete them:
    /// any other change of one holds its name or its installation, and a registration overrules an answer of APNs.
    /// - Parameters:
    ///   - allNeeds: In ascending order of app.
    ///   - names: To be locked first, in ascending order.
    package func load(_ allNeeds: [Needs], locking names: [Int64]) throws -> Loaded {
        let signOuts = allNeeds.flatMap(\.signOuts)
        let answers = try session.pipeline(
            [RegistryLock.query(names)]
                + allNeeds.flatMap { [Self.lockInstallations($0), Self.tokens($0), Self.openFences($0), Self.standIns($0)] }
                + (signOuts.isEmpty ? [] : [SignOutMoments.read(signOuts)]))
        let now: Int64 = try answers[0].only().milliseconds("now")
        let parts = allNeeds.indices.map { 1 + 4 * $0 }
        let open = try parts.flatMap { try answers[$0 + 2].map { row in try (key: InstallationKey(row), fence: Fence(row)) } }
        let unpublished = Set(open.map(\.key))
        var activeTokens: [InstallationKey: Int64] = [:]
        for row in parts.flatMap({ answers[$0 + 3] }) {
            let count: Int64 = try row["active_tokens"]
            activeTokens[try InstallationKey(row)] = count
        }
        let rows = try parts.flatMap { part in
            try answers[part].map { row in
                var state = try InstallationState(row, unpublished: unpublished)
                state.storedActiveTokens = activeTokens[state.key] ?? 0
                return state
            }
        }
        let tokens = try parts.flatMap { try answers[$0 + 1].map { row in try TokenState(row) } }
        let moments = signOuts.isEmpty ? SignOutMoments() : try SignOutMoments(signOuts, answers[1 + 4 * allNeeds.count])
        return Loaded(
            batch: RegistryBatch(installations: rows, tokens: tokens, signOuts: moments, now: now), openFences: open.map(\.fence))
    }

    /// Locks and reads tokens that APNs or the brake decides about. A token is read as it is under its lock.
    /// - Parameter corrected: Tokens that may get another environment: the rows that compete for it are read as well.
    package func load(tokens ids: Set<Int64>, corrected: [Int64]) throws -> RegistryBatch {
        let rivals: [Int64] = corrected.isEmpty ? [] : try session.execute(Self.rivals(of: corrected)).column("id")
        let rows = try session.execute(
            "SELECT *, now() FROM tokens WHERE id = ANY (\(ids.union(rivals).sorted())) ORDER BY id FOR NO KEY UPDATE")
        let now: Int64 = try rows.first?.milliseconds("now") ?? 0
        return RegistryBatch(installations: [], tokens: try rows.map { row in try TokenState(row) }, predecessors: [:], now: now)
    }

    /// Finds the start tokens of which an accepted start may count now: ``TokenState/Starts/fairTime`` has passed since the last one
    /// that did, and since the last report. It takes no lock, so that the starts of many devices do not meet the reports of these.
    package func counting(_ tokens: Set<Int64>) throws -> [Int64] {
        guard !tokens.isEmpty else { return [] }
        // IS TRUE: by the ids alone, also before the table is analyzed.
        return try session.execute(
            """
            SELECT id FROM tokens
            WHERE id = ANY (\(tokens.sorted()))
                AND (silent_since <= now() - \(TokenState.Starts.fairTime) * interval '1 millisecond' AND state = 'active') IS TRUE
            """
        ).column("id")
    }

    /// Applies the changes, one after another. If an epoch ends, it reads all moves and applies them anew.
    /// - Parameter isShared: The changes are of several callers, none of whom should wait for another one's long chain of moves.
    /// - Throws: ``LongChain`` if they are shared.
    package func apply<Results>(
        _ loaded: RegistryBatch, isShared: Bool = false, _ changes: (inout RegistryBatch) throws -> Results
    ) throws -> (RegistryBatch, Results) {
        var batch = loaded
        var results = try changes(&batch)
        guard batch.isIncomplete else { return (batch, results) }
        batch = try withMoves(loaded, isShared: isShared)
        results = try changes(&batch)
        return (batch, results)
    }

    /// The batch with all moves that lead to its installations, and with their predecessors. These are locked already, unless they are more
    /// than ``maximumReached`` or a move was committed while this transaction waited for its locks. Such locks come out of order; in the
    /// worst case PostgreSQL ends one of two transactions, and it runs again.
    private func withMoves(_ batch: RegistryBatch, isShared: Bool) throws -> RegistryBatch {
        var rows = batch.installations
        var moves: [InstallationKey: Set<PushID>] = [:]
        var unread = Dictionary(grouping: rows.keys, by: \.app)
        while !unread.isEmpty {
            for row in try session.pipeline(unread.map { app, keys in Self.moves(to: keys.map(\.id), app: app) }).joined() {
                moves[try InstallationKey(app: row["app_id"], id: row["successor"]), default: []].insert(try row["predecessor"])
            }
            let reached = Set(moves.flatMap { move in move.value.map { InstallationKey(app: move.key.app, id: $0) } })
            if isShared, reached.count > Self.maximumReachedTogether { throw LongChain() }
            unread = Dictionary(grouping: reached.subtracting(rows.keys).sorted(), by: \.app)
            for (app, keys) in unread {
                let locked = try session.execute(Self.lockInstallations(Needs(app: app, installations: keys.map(\.id))))
                for row in locked {
                    let row = try InstallationState(row, unpublished: [])
                    rows[row.key] = rows[row.key] ?? row
                }
            }
            // The foreign keys of token_moves guarantee it; without this check a missing row would make the loop endless.
            guard reached.isSubset(of: rows.keys) else { throw CorruptRow(table: "token_moves") }
        }
        return RegistryBatch(
            installations: Array(rows.values), tokens: batch.tokens, predecessors: moves, signOuts: batch.signOuts, now: batch.now)
    }
}

/// The fences of a change reach back along more moves of tokens than a transaction of several callers should read and write: the change
/// goes alone. Nothing was changed.
struct LongChain: Error {}

extension RegistryStore {
    /// Installations among the needed that are locked only because their tokens moved on. A device that was installed anew now and then has
    /// a few.
    private static let maximumReached: Int64 = 256
    /// Installations that the changes of several callers reach together: four for each of a full batch.
    private static let maximumReachedTogether = 1000

    /// The named installations, the holders of the named tokens, the installations of the named users, and those whose tokens once moved to
    /// one of these, the nearest first, as far as the limit goes. Only a fence needs the rest, and reads them itself (``withMoves(_:)``).
    private static func lockInstallations(_ needs: Needs) -> PostgresQuery {
        """
        WITH RECURSIVE concerned (id) AS (
            SELECT unnest(\(needs.installations)::uuid[])
            UNION SELECT installation FROM tokens WHERE app_id = \(needs.app) AND token = ANY (\(needs.tokens.map(\.bytes))::bytea[])
            UNION SELECT id FROM installations WHERE app_id = \(needs.app) AND owner = ANY (\(needs.users)::text[])
        ), reached (id) AS (
            SELECT id FROM concerned
            UNION SELECT m.predecessor FROM reached r CROSS JOIN LATERAL predecessors_of(\(needs.app), r.id) AS m
        )
        SELECT * FROM installations WHERE app_id = \(needs.app) AND id = ANY (ARRAY(
            SELECT id FROM concerned
            UNION ALL SELECT id FROM (SELECT id FROM reached LIMIT (SELECT count(*) FROM concerned) + \(maximumReached)) AS nearest
        ))
        ORDER BY id FOR NO KEY UPDATE
        """
    }

    /// The tokens of the named installations, and those with the named values that others hold.
    private static func tokens(_ needs: Needs) -> PostgresQuery {
        """
        SELECT * FROM tokens WHERE app_id = \(needs.app) AND installation = ANY (\(needs.installations)::uuid[])
        UNION ALL
        SELECT * FROM tokens WHERE app_id = \(needs.app) AND token = ANY (\(needs.tokens.map(\.bytes))::bytea[])
            AND installation <> ALL (\(needs.installations)::uuid[])
        """
    }

    /// The active tokens of stand-ins, doubtful ones among them, also those that were not read. Not while it locks the installations: a
    /// statement that waits for a row does not see what became of its tokens meanwhile.
    private static func standIns(_ needs: Needs) -> PostgresQuery {
        """
        SELECT i.app_id, i.id AS installation, (
            SELECT count(*) FROM tokens t WHERE t.app_id = i.app_id AND t.installation = i.id AND t.state <> 'retired'
        ) AS active_tokens
        FROM installations i WHERE i.app_id = \(needs.app) AND i.is_imported AND i.id = ANY (ARRAY(
            SELECT unnest(\(needs.installations)::uuid[])
            UNION ALL SELECT installation FROM tokens WHERE app_id = \(needs.app) AND token = ANY (\(needs.tokens.map(\.bytes))::bytea[])
        ))
        """
    }

    private static func openFences(_ needs: Needs) -> PostgresQuery {
        """
        SELECT f.* FROM unnest(\(needs.installations)::uuid[]) AS named (id) CROSS JOIN LATERAL open_fences_of(\(needs.app), named.id) AS f
        """
    }

    private static func moves(to installations: [PushID], app: App.ID) -> PostgresQuery {
        """
        WITH RECURSIVE moves AS (
            SELECT m.* FROM unnest(\(installations)::uuid[]) AS named (id) CROSS JOIN LATERAL predecessors_of(\(app), named.id) AS m
            UNION SELECT m.* FROM moves s CROSS JOIN LATERAL predecessors_of(\(app), s.predecessor) AS m
        )
        SELECT * FROM moves
        """
    }

    /// The rows of the same tokens, and the tokens of the same installations that are not retired, each of the same purpose.
    private static func rivals(of tokens: [Int64]) -> PostgresQuery {
        """
        SELECT o.id FROM tokens t JOIN tokens o ON o.app_id = t.app_id AND o.token = t.token AND o.purpose = t.purpose
        WHERE t.id = ANY (\(tokens)::bigint[])
        UNION
        SELECT o.id FROM tokens t CROSS JOIN LATERAL (
            SELECT * FROM tokens WHERE app_id = t.app_id AND installation = t.installation ORDER BY id
        ) AS o WHERE t.id = ANY (\(tokens)::bigint[]) AND o.purpose = t.purpose AND o.state <> 'retired'
        """
    }
}

extension PostgresPool {
    /// A transaction of ``RegistryStore``. It runs again if an answer of APNs changed a token between its read and its write.
    @discardableResult
    package func registryTransaction<R: Sendable>(_ body: @escaping @Sendable (PostgresSession) throws -> R) async throws -> R {
        try await session { session in try session.registryTransaction(onAnswer: {}, body) }
    }
}

extension PostgresSession {
    /// - Parameter onAnswer: An answer of APNs came between, and the transaction runs again.
    func registryTransaction<R>(onAnswer: () -> Void, _ body: (PostgresSession) throws -> R) throws -> R {
        // Answers come one batch after another, so they cannot come between a read and its write for ever.
        for _ in 0..<5 {
            do {
                return try retryingTransaction(body)
            } catch is AnswerBetween {
                onAnswer()
            } catch let error as PostgresError where error.code == .sqlState(.uniqueViolation) {
                // An answer corrected a token's environment between the read and the write. The next try reads it.
                onAnswer()
            }
        }
        return try retryingTransaction(body)
    }
}

extension RegistryStore {
    /// One change of some installations, committed.
    package struct Committed: Sendable {
        /// The installations that the change signed out or removed, in ascending order.
        package var installations: [InstallationKey] = []
        /// The first of them; if there is none, the first one that the change named.
        var shown: InstallationState?
        package var tokens = 0
        /// The fences that an answer waits for.
        package var fences: [Fence] = []
        /// Why a sign-out or a deregistration had no effect but its moment.
        var refusal: (any Error)?

        package init(installations: [InstallationKey] = [], shown: InstallationState? = nil, tokens: Int = 0, fences: [Fence] = []) {
            self.installations = installations
            self.shown = shown
            self.tokens = tokens
            self.fences = fences
        }
    }

    /// Signs out or deregisters.
    func commit(_ change: RegistryChange, of app: App) throws -> Committed {
        var needs = Needs(app: app.id, installations: [])
        var target: RegistryChange.Target?
        switch change {
        case .signOut(let named, _), .deregister(let named, _): target = named
        default: break
        }
        switch target {
        case .installation(let id): needs.installations = [id]
        case .user(_, let ids): needs.installations = ids
        case .token(let token, _):
            needs.tokens = [token]
            try session.execute(RegistryLock.query(RegistryLock.keys(app: app.id, tokens: [token])))
            // They stay the holders: a change that moves the token needs the lock on its name.
            needs.installations = try session.execute(
                "SELECT DISTINCT installation FROM tokens WHERE app_id = \(app.id) AND token = \(token.bytes)"
            ).column("installation")
        case nil: break
        }
        let names = needs.tokens.isEmpty ? RegistryLock.keys(app: app.id, installations: needs.installations) : []
        return try commit(
            change, of: app, reading: needs, locking: names, shown: { batch in target.flatMap { batch.keys(of: $0, app: app.id).first } })
    }

    /// Notes that a user is signed out everywhere, or erased. It locks the name first, so that a sign-in that is under way is either there
    /// for the sign-out to end, or comes later and finds the moment.
    package func noteSignOut(of user: String, app: App) throws {
        try session.execute(RegistryLock.query(RegistryLock.keys(app: app.id, users: [user])))
        try session.execute(SignOutMoments.write([SignOutMoments.Name(user: user, of: app.id)]))
    }

    /// A change of the next installations that a user owns, whose name it locks.
    /// - Returns: What was committed, with the installation after which to go on; nil at the end.
    package func commitPage(
        of user: String, after cursor: PushID, limit: Int, app: App, also: (RegistryBatch, [PushID]) -> [PostgresQuery] = { _, _ in [] },
        _ change: ([PushID]) -> RegistryChange
    ) throws -> (committed: Committed, next: PushID?) {
        try session.execute(RegistryLock.query(RegistryLock.keys(app: app.id, users: [user])))
        let owned = try InstallationStore(session: session, app: app).installations(ownedBy: user, after: cursor, limit: limit)
        guard !owned.isEmpty else { return (Committed(), nil) }
        let committed = try commit(change(owned), of: app, reading: Needs(app: app.id, installations: owned), also: also)
        return (committed, owned.count < limit ? nil : owned.last)
    }

    /// - Parameter also: Gets the batch and the installations of the change; runs in the same transaction.
    package func commit(
        _ change: RegistryChange, of app: App, reading needs: Needs, locking names: [Int64] = [],
        also: (RegistryBatch, [PushID]) -> [PostgresQuery] = { _, _ in [] }, shown: (RegistryBatch) -> InstallationKey? = { _ in nil }
    ) throws -> Committed {
        let loaded = try load([needs], locking: names)
        let (batch, result) = try apply(loaded.batch) { batch in try batch.apply(change, of: app) }
        let written = try save(batch, also: also(batch, result.installations.map(\.id)))
        let key = result.installations.first ?? shown(loaded.batch)
        var committed = Committed(
            installations: result.installations, shown: key.flatMap { batch.installations[$0] }, tokens: result.tokens,
            fences: loaded.openFences + result.fenced.sorted().compactMap { written[$0] })
        committed.refusal = result.refusal
        return committed
    }
}

/// The names in a change of the registry, locked before any row is read.
///
/// Every change takes these advisory locks first, all at once and in ascending order. Then it takes row locks, also all at once and in
/// ascending order: of installations, then of tokens. So two changes that race for the same token, installation or user wait for each
/// other, even if their rows do not exist yet. After a deadlock with other locks (of indexes, of foreign keys) the transaction runs again.
package enum RegistryLock {
    /// Names the locks of these values, in the order in which they are locked.
    package static func keys(app: App.ID, installations: [PushID] = [], tokens: [DeviceToken] = [], users: [String] = []) -> [Int64] {
        unique(
            installations.map { key("installation", app, $0.bytes) } + tokens.map { key("token", app, $0.bytes) }
                + users.map { key("user", app, $0.utf8) })
    }

    /// Puts the locks of many changes into the order in which they are locked, each once.
    static func unique(_ keys: [Int64]) -> [Int64] {
        keys.sorted().reduce(into: []) { unique, key in
            if unique.last != key { unique.append(key) }
        }
    }

    /// The app's lock between outcomes and erasures (``ErasureBarrier``).
    static func erasure(app: App.ID) -> Int64 { key("erasure", app, [UInt8]()) }

    private static func key(_ kind: String, _ app: App.ID, _ name: some Sequence<UInt8>) -> Int64 {
        // FNV-1a: the same in every process. Two names that collide only wait for each other.
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        func mix(_ byte: UInt8) { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01b3 }
        for shift in stride(from: 0, to: 64, by: 8) { mix(UInt8(truncatingIfNeeded: app >> shift)) }
        kind.utf8.forEach(mix)
        name.forEach(mix)
        return Int64(bitPattern: hash)
    }

    /// Locks them, and reads PostgreSQL's clock (`now`) when the last lock was granted: a later change of the same name has a later moment.
    /// It is rounded up to the API's millisecond, so that a 410 that Apple stamped within that millisecond but before the registration does
    /// not retire the token.
    package static func query(_ keys: [Int64]) -> PostgresQuery {
        """
        SELECT count(pg_advisory_xact_lock(key)), date_trunc('milliseconds', clock_timestamp()) + interval '1 millisecond' AS now
        FROM (SELECT key FROM unnest(\(keys)::bigint[]) AS key ORDER BY key) AS ordered
        """
    }
}
