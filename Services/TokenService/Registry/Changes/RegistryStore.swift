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
    package struct Scope: Sendable {
        package var app: App.ID
        package var installations: [PushID]
        /// Their holders are read as well.
        package var tokens: [DeviceToken] = []
        /// All of their installations are read as well.
        package var users: [String] = []

        package init(app: App.ID, installations: [PushID], tokens: [DeviceToken] = [], users: [String] = []) {
            self.app = app
            self.installations = installations
            self.tokens = tokens
            self.users = users
        }
    }

    package struct Loaded {
        package var batch: RegistryBatch
        /// Of the scopes' installations: committed earlier and perhaps not on the control stream. An answer waits for them as well.
        package var openFences: [Fence]
    }

    /// Takes locks in the common order (``RegistryLock``): names, then installations. It locks token rows only to retire or delete them:
    /// any other change of one holds its name or its installation, and a registration overrules an answer of APNs.
    /// - Parameters:
    ///   - scopes: In ascending order of app.
    ///   - names: To be locked first, in ascending order.
    package func load(_ scopes: [Scope], locking names: [Int64]) throws -> Loaded {
        let answers = try session.pipeline(
            [RegistryLock.query(names)]
                + scopes.flatMap { [Self.lockInstallations($0), Self.tokens($0), Self.openFences($0), Self.standIns($0)] })
        let now: Int64 = try answers[0].only().milliseconds("now")
        let parts = scopes.indices.map { 1 + 4 * $0 }
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
        return Loaded(batch: RegistryBatch(installations: rows, tokens: tokens, now: now), openFences: open.map(\.fence))
    }

    /// Locks and reads tokens that APNs or the brake decides about. A token is read as it is under its lock.
    /// - Parameter corrected: Of those that may get another environment, the rows that compete for it are read as well.
    package func load(tokens ids: Set<Int64>, corrected: [Int64]) throws -> RegistryBatch {
        let rivals: [Int64] = corrected.isEmpty ? [] : try session.execute(Self.rivals(of: corrected)).column("id")
        let rows = try session.execute(
            "SELECT *, now() FROM tokens WHERE id = ANY (\(ids.union(rivals).sorted())) ORDER BY id FOR NO KEY UPDATE")
        let now: Int64 = try rows.first?.milliseconds("now") ?? 0
        return RegistryBatch(installations: [], tokens: try rows.map { row in try TokenState(row) }, predecessors: [:], now: now)
    }

    /// Of these start tokens, those of which an accepted start may count now: ``TokenState/Starts/fairTime`` has passed since the last one
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
                let locked = try session.execute(Self.lockInstallations(Scope(app: app, installations: keys.map(\.id))))
                for row in locked {
                    let row = try InstallationState(row, unpublished: [])
                    rows[row.key] = rows[row.key] ?? row
                }
            }
            // The foreign keys of token_moves guarantee it; without this check a missing row would make the loop endless.
            guard reached.isSubset(of: rows.keys) else { throw CorruptRow(table: "token_moves") }
        }
        return RegistryBatch(installations: Array(rows.values), tokens: batch.tokens, predecessors: moves, now: batch.now)
    }
}

/// The fences of a change reach back along more moves of tokens than a transaction of several callers should read and write: the change goes
/// alone. Nothing was changed.
struct LongChain: Error {}

extension RegistryStore {
    /// Installations of a scope that are locked only because their tokens moved on. A device that was installed anew now and then has a few.
    private static let maximumReached: Int64 = 256
    /// Installations that the changes of several callers reach together: four for each of a full batch.
    private static let maximumReachedTogether = 1000

    /// The named installations, the holders of the named tokens, the installations of the named users, and those whose tokens once moved to
    /// one of these, the nearest first, as far as the limit goes. Only a fence needs the rest, and reads them itself (``withMoves(_:)``).
    private static func lockInstallations(_ scope: Scope) -> PostgresQuery {
        """
        WITH RECURSIVE concerned (id) AS (
            SELECT unnest(\(scope.installations)::uuid[])
            UNION SELECT installation FROM tokens WHERE app_id = \(scope.app) AND token = ANY (\(scope.tokens.map(\.bytes))::bytea[])
            UNION SELECT id FROM installations WHERE app_id = \(scope.app) AND owner = ANY (\(scope.users)::text[])
        ), reached (id) AS (
            SELECT id FROM concerned
            UNION SELECT m.predecessor FROM reached r CROSS JOIN LATERAL predecessors_of(\(scope.app), r.id) AS m
        )
        SELECT * FROM installations WHERE app_id = \(scope.app) AND id = ANY (ARRAY(
            SELECT id FROM concerned
            UNION ALL SELECT id FROM (SELECT id FROM reached LIMIT (SELECT count(*) FROM concerned) + \(maximumReached)) AS nearest
        ))
        ORDER BY id FOR NO KEY UPDATE
        """
    }

    /// The tokens of the named installations, and those with the named values that others hold.
    private static func tokens(_ scope: Scope) -> PostgresQuery {
        """
        SELECT * FROM tokens WHERE app_id = \(scope.app) AND installation = ANY (\(scope.installations)::uuid[])
        UNION ALL
        SELECT * FROM tokens WHERE app_id = \(scope.app) AND token = ANY (\(scope.tokens.map(\.bytes))::bytea[])
            AND installation <> ALL (\(scope.installations)::uuid[])
        """
    }

    /// The active tokens of stand-ins, doubtful ones among them, also those that were not read. Not while it locks the installations: a
    /// statement that waits for a row does not see what became of its tokens meanwhile.
    private static func standIns(_ scope: Scope) -> PostgresQuery {
        """
        SELECT i.app_id, i.id AS installation, (
            SELECT count(*) FROM tokens t WHERE t.app_id = i.app_id AND t.installation = i.id AND t.state <> 'retired'
        ) AS active_tokens
        FROM installations i WHERE i.app_id = \(scope.app) AND i.is_imported AND i.id = ANY (ARRAY(
            SELECT unnest(\(scope.installations)::uuid[])
            UNION ALL SELECT installation FROM tokens WHERE app_id = \(scope.app) AND token = ANY (\(scope.tokens.map(\.bytes))::bytea[])
        ))
        """
    }

    private static func openFences(_ scope: Scope) -> PostgresQuery {
        """
        SELECT f.* FROM unnest(\(scope.installations)::uuid[]) AS named (id) CROSS JOIN LATERAL open_fences_of(\(scope.app), named.id) AS f
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
