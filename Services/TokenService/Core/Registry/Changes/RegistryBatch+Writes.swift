import Postgres
import PushModel

extension RegistryBatch {
    typealias Command = (PostgresStatement, [PostgresValue])

    /// Rows are written in ascending order of their keys, as verdicts do. Statements follow one another, so a cycle with a verdict is
    /// possible all the same; then PostgreSQL ends one of the two, and it runs again.
    var installationWrites: [Command] {
        let rows = installations.values.sorted { $0.key < $1.key }
        let new = rows.filter { !$0.isStored }
        let refreshed = rows.filter { $0.isStored && $0.writing == .refresh }
        let changed = rows.filter { $0.isStored && $0.writing == .everything }
        var commands: [Command] = []
        if !new.isEmpty { commands.append((RegistryBatchStore.insertInstallations, Self.inserted(new))) }
        if !refreshed.isEmpty {
            let parameters: [PostgresValue] = Self.keys(refreshed) + [.timestampArray(refreshed.map(\.registeredAt))]
            commands.append((RegistryBatchStore.refreshInstallations, parameters))
        }
        if !changed.isEmpty { commands.append((RegistryBatchStore.updateInstallations, Self.updated(changed))) }
        // What a new one became later in the same batch.
        let ended = new.filter { $0.epoch != 1 || $0.signedOutReason != nil }
        if !ended.isEmpty { commands.append((RegistryBatchStore.updateInstallations, Self.updated(ended))) }
        return commands
    }

    var tokenWrites: [Command] {
        let stored = tokens.filter { $0.id != nil }.sorted { ($0.id ?? 0) < ($1.id ?? 0) }
        let new = tokens.filter { $0.id == nil }
        let refreshed = stored.filter { $0.writing == .refresh }
        let changed = stored.filter { $0.writing == .everything }
        var commands: [Command] = []
        let wanted = Set(changed.filter { $0.retired == nil }.map(\.place))
        let vacated = changed.filter { token in
            token.storedPlace.map { wanted.contains($0) && (token.retired != nil || $0 != token.place) } ?? false
        }
        if !vacated.isEmpty {
            commands.append((RegistryBatchStore.vacate, [.int64Array(vacated.compactMap(\.id)), .timestamp(milliseconds: now)]))
        }
        if !changed.isEmpty { commands.append((RegistryBatchStore.updateTokens, Self.updated(changed))) }
        if !refreshed.isEmpty {
            let parameters: [PostgresValue] = [.int64Array(refreshed.compactMap(\.id)), .timestampArray(refreshed.map(\.registeredAt))]
            commands.append((RegistryBatchStore.refreshTokens, parameters))
        }
        // A token that came and went within the batch is remembered like any other.
        if !new.isEmpty { commands.append((RegistryBatchStore.insertTokens, Self.inserted(new))) }
        return commands
    }

    var moveWrites: [Command] {
        let pairs = gainedPredecessors.sorted().flatMap { key in (predecessors[key] ?? []).sorted().map { (key, $0) } }
        guard !pairs.isEmpty else { return [] }
        let parameters: [PostgresValue] = [
            .int64Array(pairs.map(\.0.app)), .ids(pairs.map(\.0.id)), .ids(pairs.map(\.1)), .timestamp(milliseconds: now),
        ]
        return [(RegistryBatchStore.insertMoves, parameters)]
    }
}

extension RegistryBatch {
    private static func keys(_ rows: [InstallationState]) -> [PostgresValue] {
        [.int64Array(rows.map(\.key.app)), .ids(rows.map(\.key.id))]
    }

    private static func profiles(_ rows: [InstallationState]) -> [PostgresValue] {
        [
            .optionalTextArray(rows.map(\.profile.locale)), .optionalTextArray(rows.map(\.profile.timeZone)),
            .optionalTextArray(rows.map(\.profile.appVersion)), .optionalTextArray(rows.map(\.profile.osVersion)),
            .optionalTextArray(rows.map(\.profile.deviceModel)), .textArray(rows.map { arrayLiteral($0.profile.tags) }),
        ]
    }

    private static func inserted(_ rows: [InstallationState]) -> [PostgresValue] {
        keys(rows) + [.optionalTextArray(rows.map(\.owner)), .timestampArray(rows.map(\.registeredAt))] + profiles(rows)
    }

    private static func updated(_ rows: [InstallationState]) -> [PostgresValue] {
        keys(rows) + [
            .optionalTextArray(rows.map(\.owner)), .int64Array(rows.map(\.epoch)),
            .optionalTextArray(rows.map(\.signedOutReason?.rawValue)), .timestampArray(rows.map(\.registeredAt)),
            .timestampArray(rows.map(\.createdAt)), .optionalTimestampArray(rows.map(\.deregisteredAt)),
            .optionalTimestampArray(rows.map(\.staleSince)),
        ] + profiles(rows)
    }

    private static func updated(_ tokens: [TokenState]) -> [PostgresValue] {
        [
            .int64Array(tokens.compactMap(\.id)), .ids(tokens.map(\.installation)), .timestampArray(tokens.map(\.registeredAt)),
            .optionalTimestampArray(tokens.map(\.retired?.at)), .optionalTextArray(tokens.map(\.retired?.reason.rawValue)),
        ]
    }

    private static func inserted(_ tokens: [TokenState]) -> [PostgresValue] {
        [
            .int64Array(tokens.map(\.app)), .ids(tokens.map(\.installation)), .timestampArray(tokens.map(\.registeredAt)),
            .textArray(tokens.map(\.environment.rawValue)), .textArray(tokens.map(\.purpose.rawValue)),
            .bytesArray(tokens.map(\.token.bytes)), .optionalTimestampArray(tokens.map(\.retired?.at)),
            .optionalTextArray(tokens.map(\.retired?.reason.rawValue)),
        ]
    }

    /// PostgreSQL's text form of a text array (manual 8.15.6): arrays of arrays of different lengths cannot be sent as one.
    private static func arrayLiteral(_ elements: [String]) -> String {
        guard !elements.isEmpty else { return "{}" }
        var literal = [UInt8(ascii: "{")]
        for element in elements {
            if literal.count > 1 { literal.append(UInt8(ascii: ",")) }
            literal.append(UInt8(ascii: "\""))
            // By bytes: a quote that carries a combining mark is one Character, and would be passed over.
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
