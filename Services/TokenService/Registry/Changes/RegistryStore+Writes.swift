package import Postgres
import PushModel

extension RegistryStore {
    /// Writes the changes and commits, in one round trip: no statement may follow in the transaction. Rows are written in ascending order
    /// of their keys. A deadlock with an outcome is still possible; then PostgreSQL ends one of the two, and it runs again.
    /// - Parameters:
    ///   - areTokensLocked: Those of a batch that ``load(tokens:corrected:)`` read are.
    ///   - also: Runs in the same transaction, before Live Activities end.
    /// - Throws: ``AnswerBetween``.
    /// - Returns: the fences that were written, by installation.
    @discardableResult
    package func save(
        _ batch: RegistryBatch, areTokensLocked: Bool = false, also: [PostgresQuery] = []
    ) throws -> [InstallationKey: Fence] {
        if !areTokensLocked { try lockEnding(batch) }
        let fenced = batch.fenced.sorted()
        // Fences refer to installations, so new ones come first; a new installation is never fenced.
        var queries = batch.installationWrites
        let place = queries.count
        if !fenced.isEmpty {
            let epochs = fenced.map { batch.installations[$0]?.epoch ?? 1 }
            queries += [Self.insertFences(fenced, epochs, at: batch.now), Self.deleteMoves(fenced)]
        }
        queries += batch.tokenWrites
        let moves = batch.gainedPredecessors.sorted().flatMap { key in (batch.predecessors[key] ?? []).sorted().map { (key, $0) } }
        if !moves.isEmpty { queries.append(Self.insertMoves(moves, at: batch.now)) }
        if !batch.history.isEmpty { queries.append(HistoryStore.append(batch.history)) }
        // What the Live Activities of the users that left show disappears: after the writes of their reports, which came before.
        let places = fenced.flatMap { key -> [ActivityEnd.Place] in
            guard let row = batch.installations[key] else { return [] }
            return row.ownersOfEnded.map { ActivityEnd.Place(installation: key, user: $0, later: row.reportedLater) }
        }
        if !batch.noted.isEmpty { queries.append(SignOutMoments.write(Array(batch.noted))) }
        queries += also + ActivityEnd.insert(places)
        guard !queries.isEmpty else { return [:] }
        let answers = try session.commit(with: queries)
        guard !fenced.isEmpty else { return [:] }
        return Dictionary(uniqueKeysWithValues: try answers[place].map { row in (try InstallationKey(row), try Fence(row)) })
    }

    /// If the batch retires or deletes tokens, it locks all that the batch writes, in the order in which APNs' answers lock theirs. An
    /// answer may have retired one of those since it was read.
    private func lockEnding(_ batch: RegistryBatch) throws {
        let ending = batch.tokens.filter { $0.writing == .deletion || $0.storedPlace != nil && $0.retired != nil }
        guard !ending.isEmpty else { return }
        let written = batch.tokens.filter { $0.writing != .nothing }.compactMap(\.id).sorted()
        let active: [Int64] = try session.execute(
            "SELECT id, state <> 'retired' AS is_active FROM tokens WHERE id = ANY (\(written)) ORDER BY id FOR NO KEY UPDATE"
        ).filter { row in try row["is_active"] }.map { row in try row["id"] }
        let ids = Set(ending.compactMap(\.id))
        if active.count(where: { ids.contains($0) }) < ending.count(where: { $0.storedPlace != nil }) { throw AnswerBetween() }
    }

    private static func insertFences(_ fenced: [InstallationKey], _ epochs: [Int64], at now: Int64) -> PostgresQuery {
        """
        INSERT INTO fences (app_id, installation, epochs_below, created_at, free_from)
        SELECT app_id, id, epoch, \(milliseconds: now), \(milliseconds: now + FencePublisher.alone)
        FROM unnest(\(fenced.map(\.app))::bigint[], \(fenced.map(\.id))::uuid[], \(epochs)::bigint[]) AS e (app_id, id, epoch)
        RETURNING id, app_id, (SELECT slug FROM apps WHERE apps.id = app_id) AS app, installation, epochs_below, created_at
        """
    }

    /// Ended epochs are fenced: no later fence needs to reach back to them, or from them.
    private static func deleteMoves(_ fenced: [InstallationKey]) -> PostgresQuery {
        """
        WITH ended AS (SELECT * FROM unnest(\(fenced.map(\.app))::bigint[], \(fenced.map(\.id))::uuid[]) AS e (app_id, id)),
            led_here AS (DELETE FROM token_moves m USING ended e WHERE m.app_id = e.app_id AND m.successor = e.id)
        DELETE FROM token_moves m USING ended e WHERE m.app_id = e.app_id AND m.predecessor = e.id
        """
    }

    private static func insertMoves(_ moves: [(key: InstallationKey, predecessor: PushID)], at now: Int64) -> PostgresQuery {
        """
        INSERT INTO token_moves (app_id, successor, predecessor, moved_at)
        SELECT app_id, successor, predecessor, \(milliseconds: now)
        FROM unnest(\(moves.map(\.key.app))::bigint[], \(moves.map(\.key.id))::uuid[], \(moves.map(\.predecessor))::uuid[])
            AS e (app_id, successor, predecessor)
        ON CONFLICT (app_id, successor, predecessor) DO UPDATE SET moved_at = excluded.moved_at
        """
    }
}

/// APNs' answer retired a token after the batch was read, and the batch wants to retire it for another reason.
struct AnswerBetween: Error {}

extension RegistryBatch {
    fileprivate var installationWrites: [PostgresQuery] {
        let rows = installations.values.filter { !$0.isStored || $0.writing != .nothing }.sorted { $0.key < $1.key }
        return rows.isEmpty ? [] : [Self.write(rows)]
    }

    fileprivate var tokenWrites: [PostgresQuery] {
        let deleted = tokens.filter(\.isDeleted).compactMap(\.id)
        let stored = tokens.filter { token in
            token.id != nil && token.writing != .nothing && !token.isDeleted
        }.sorted { ($0.id ?? 0) < ($1.id ?? 0) }
        // A token that came and went within the batch is stored like any other.
        let rows = stored + tokens.filter { $0.id == nil && !$0.isDeleted }
        let wanted = Set(rows.filter { $0.isActive && !$0.isRefresh }.map(\.place))
        let vacated = stored.filter { token in
            token.storedPlace.map { wanted.contains($0) && (!token.isActive || $0 != token.place) } ?? false
        }
        var queries: [PostgresQuery] = []
        if !deleted.isEmpty { queries.append("DELETE FROM tokens WHERE id = ANY (\(deleted))") }
        if !vacated.isEmpty { queries.append(Self.vacate(vacated.compactMap(\.id), at: now)) }
        if !rows.isEmpty { queries.append(Self.write(rows)) }
        return queries
    }

    /// One statement for all changes of installations: each one that writes a table has to read all of its rules anew. A row without an
    /// epoch is a refresh.
    private static func write(_ rows: [InstallationState]) -> PostgresQuery {
        func changed<Value>(_ value: (InstallationState) -> Value?) -> [Value?] { rows.map { $0.isRefresh ? nil : value($0) } }
        return """
            MERGE INTO installations i
            USING unnest(
                \(rows.map(\.key.app))::bigint[], \(rows.map(\.key.id))::uuid[], \(milliseconds: rows.map(\.registeredAt))::timestamptz[],
                \(rows.map(\.isStored))::bool[], \(changed(\.epoch))::bigint[], \(changed(\.owner))::text[],
                \(changed(\.signedOutReason?.rawValue))::text[], \(milliseconds: changed(\.throttledUntil))::timestamptz[],
                \(milliseconds: changed(\.createdAt))::timestamptz[], \(milliseconds: changed(\.deregisteredAt))::timestamptz[],
                \(milliseconds: changed(\.staleSince))::timestamptz[], \(milliseconds: changed(\.linesCountUntil))::timestamptz[],
                \(changed(\.profile.locale))::text[],
                \(changed(\.profile.timeZone))::text[], \(changed(\.profile.appVersion))::text[], \(changed(\.profile.osVersion))::text[],
                \(changed(\.profile.deviceModel))::text[], \(changed(\.profile.permission?.rawValue))::text[],
                \(changed { arrayLiteral(InstallationTags.words(tags: $0.tags, appTags: $0.profile.appTags)) })::text[],
                \(changed(\.isImported))::bool[])
                AS e (app_id, id, registered_at, is_stored, epoch, owner, signed_out_reason, throttled_until, created_at, deregistered_at,
                    stale_since, lines_count_until, locale, time_zone, app_version, os_version, device_model, permission, tags, is_imported)
            ON i.app_id = e.app_id AND i.id = e.id
            WHEN MATCHED AND e.epoch IS NULL THEN UPDATE SET registered_at = e.registered_at
            WHEN MATCHED THEN UPDATE SET owner = e.owner, owner_epoch = e.epoch, signed_out_reason = e.signed_out_reason,
                throttled_until = e.throttled_until, registered_at = e.registered_at, created_at = e.created_at,
                deregistered_at = e.deregistered_at, stale_since = e.stale_since,
                lines_count_until = e.lines_count_until, locale = e.locale, time_zone = e.time_zone,
                app_version = e.app_version, os_version = e.os_version, device_model = e.device_model,
                permission = e.permission, tags = e.tags::text[], is_imported = e.is_imported
            WHEN NOT MATCHED AND NOT e.is_stored THEN INSERT (app_id, id, owner, owner_epoch, signed_out_reason, registered_at, created_at,
                deregistered_at, lines_count_until, locale, time_zone, app_version, os_version, device_model, permission, tags, is_imported)
                VALUES (e.app_id, e.id, e.owner, e.epoch, e.signed_out_reason, e.registered_at, e.created_at, e.deregistered_at,
                    e.lines_count_until, e.locale, e.time_zone,
                    e.app_version, e.os_version, e.device_model, e.permission, e.tags::text[], e.is_imported)
            """
    }

    /// Vacates places that other tokens take in the next statement: the index allows one active token in each at any moment.
    private static func vacate(_ tokens: [Int64], at now: Int64) -> PostgresQuery {
        """
        UPDATE tokens SET state = 'retired', retired_at = \(milliseconds: now), retired_reason = 'replaced'
        WHERE id = ANY (\(tokens))
        """
    }

    /// One statement for the same reason as for installations, and so that rows are locked in one order. A row without an id is new; one
    /// without an installation is a refresh, or with `silent_since` an answer to starts. A proof that came after the row was read stays.
    private static func write(_ rows: [TokenState]) -> PostgresQuery {
        func changed<Value>(_ value: (TokenState) -> Value?) -> [Value?] { rows.map { $0.isRefresh || $0.isAnswer ? nil : value($0) } }
        let silentSince: [Int64?] = rows.map { $0.isRefresh ? nil : $0.starts.since }
        func new<Value>(_ value: (TokenState) -> Value) -> [Value?] { rows.map { $0.id == nil ? value($0) : nil } }
        return """
            MERGE INTO tokens t
            USING (
                SELECT *, (SELECT i.ordinal FROM installations i WHERE i.app_id = row.app_id AND i.id = row.installation) AS ordinal,
                    CASE WHEN retired_at IS NOT NULL THEN 'retired' WHEN is_doubtful THEN 'doubtful' ELSE 'active' END AS state
                FROM unnest(
                    \(rows.map(\.id))::bigint[], \(milliseconds: rows.map(\.registeredAt))::timestamptz[],
                    \(changed(\.app))::bigint[], \(changed(\.installation))::uuid[], \(changed(\.environment.rawValue))::text[],
                    \(milliseconds: changed(\.retired?.at))::timestamptz[], \(changed(\.retired?.reason.rawValue))::text[],
                    \(milliseconds: changed(\.quarantinedAt))::timestamptz[], \(milliseconds: changed(\.provenAt))::timestamptz[],
                    \(milliseconds: changed(\.endsByAPNs.at))::timestamptz[], \(changed(\.endsByAPNs.times))::bigint[],
                    \(milliseconds: silentSince)::timestamptz[], \(changed(\.starts.silent))::bigint[],
                    \(changed(\.starts.isDoubtful))::bool[],
                    \(new(\.purpose.rawValue))::text[], \(new(\.token.bytes))::bytea[])
                    AS row (id, registered_at, app_id, installation, environment, retired_at, retired_reason, quarantined_at, proven_at,
                        ended_by_apns_at, ended_by_apns_times, silent_since, silent_starts, is_doubtful, purpose, token)
            ) AS e
            ON t.id = e.id
            WHEN MATCHED AND e.installation IS NULL AND e.silent_since IS NULL THEN UPDATE SET registered_at = e.registered_at,
                state = 'active', retired_at = NULL, retired_reason = NULL, quarantined_at = NULL, silent_starts = 0
            WHEN MATCHED AND e.installation IS NULL AND t.state <> 'retired' THEN UPDATE SET state = 'active',
                silent_since = e.silent_since, silent_starts = 0
            WHEN MATCHED AND e.installation IS NOT NULL THEN UPDATE SET installation = e.installation, ordinal = e.ordinal,
                environment = e.environment, state = e.state, registered_at = e.registered_at, retired_at = e.retired_at,
                retired_reason = e.retired_reason, quarantined_at = e.quarantined_at, proven_at = coalesce(t.proven_at, e.proven_at),
                ended_by_apns_at = e.ended_by_apns_at, ended_by_apns_times = e.ended_by_apns_times, silent_since = e.silent_since,
                silent_starts = e.silent_starts
            WHEN NOT MATCHED AND e.id IS NULL THEN INSERT (app_id, installation, ordinal, registered_at, environment, purpose, token, state,
                retired_at, retired_reason, silent_since)
                VALUES (e.app_id, e.installation, e.ordinal, e.registered_at, e.environment, e.purpose, e.token, e.state, e.retired_at,
                    e.retired_reason, e.silent_since)
            """
    }

    /// PostgreSQL's text form of a text array (manual 8.15.6): arrays of arrays of different lengths cannot be sent as one.
    private static func arrayLiteral(_ elements: [String]) -> String {
        guard !elements.isEmpty else { return "{}" }
        var literal = [UInt8(ascii: "{")]
        for element in elements {
            if literal.count > 1 { literal.append(UInt8(ascii: ",")) }
            literal.append(UInt8(ascii: "\""))
            // By bytes: a quote that carries a combining mark is one Character, and the loop would not find it.
            for byte in element.utf8 {
                if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { literal.append(UInt8(ascii: "\\")) }
                literal.append(byte)
            }
            literal.append(UInt8(ascii: "\""))
        }
        literal.append(UInt8(ascii: "}"))
        return String(decoding: literal, as: UTF8.self)
    }
}

extension InstallationState {
    /// Whether only its moment has to be written.
    fileprivate var isRefresh: Bool { isStored && writing == .refresh }
}

extension TokenState {
    fileprivate var isRefresh: Bool { id != nil && writing == .refresh }
    fileprivate var isAnswer: Bool { id != nil && writing == .answer }
}
