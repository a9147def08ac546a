import Postgres
import PushModel

extension RegistryBatch {
    typealias Command = (PostgresStatement, [PostgresValue])

    /// Rows are written in ascending order of their keys, as verdicts do. Statements follow one another, so a cycle with a verdict is
    /// possible all the same; then PostgreSQL ends one of the two, and it runs again.
    var installationWrites: [Command] {
        let rows = installations.values.filter { !$0.isStored || $0.writing != .nothing }.sorted { $0.key < $1.key }
        return rows.isEmpty ? [] : [(RegistryBatchStore.writeInstallations, Self.written(rows))]
    }

    var tokenWrites: [Command] {
        let stored = tokens.filter { $0.id != nil && $0.writing != .nothing }.sorted { ($0.id ?? 0) < ($1.id ?? 0) }
        // A token that came and went within the batch is remembered like any other.
        let rows = stored + tokens.filter { $0.id == nil }
        var commands: [Command] = []
        let changed = stored.filter { $0.writing == .everything }
        if !changed.isEmpty {
            let wanted = Set(rows.filter { $0.retired == nil && !$0.isRefresh }.map(\.place))
            let vacated = changed.filter { token in
                token.storedPlace.map { wanted.contains($0) && (token.retired != nil || $0 != token.place) } ?? false
            }
            if !vacated.isEmpty {
                commands.append((RegistryBatchStore.vacate, [.int64Array(vacated.compactMap(\.id)), .timestamp(milliseconds: now)]))
            }
        }
        if !rows.isEmpty { commands.append((RegistryBatchStore.writeTokens, Self.written(rows))) }
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
    /// For ``RegistryBatchStore/writeInstallations``.
    private static func written(_ rows: [InstallationState]) -> [PostgresValue] {
        func changed<Value>(_ value: (InstallationState) -> Value?) -> [Value?] { rows.map { $0.isRefresh ? nil : value($0) } }
        return [
            .int64Array(rows.map(\.key.app)), .ids(rows.map(\.key.id)), .timestampArray(rows.map(\.registeredAt)),
            .boolArray(rows.map { !$0.isStored }), .optionalInt64Array(changed(\.epoch)), .optionalTextArray(changed(\.owner)),
            .optionalTextArray(changed(\.signedOutReason?.rawValue)), .optionalTimestampArray(changed(\.createdAt)),
            .optionalTimestampArray(changed(\.deregisteredAt)), .optionalTimestampArray(changed(\.staleSince)),
            .optionalTextArray(changed(\.profile.locale)), .optionalTextArray(changed(\.profile.timeZone)),
            .optionalTextArray(changed(\.profile.appVersion)), .optionalTextArray(changed(\.profile.osVersion)),
            .optionalTextArray(changed(\.profile.deviceModel)), .optionalTextArray(changed { arrayLiteral($0.profile.tags) }),
        ]
    }

    /// For ``RegistryBatchStore/writeTokens``.
    private static func written(_ tokens: [TokenState]) -> [PostgresValue] {
        func changed<Value>(_ value: (TokenState) -> Value?) -> [Value?] { tokens.map { $0.isRefresh ? nil : value($0) } }
        func new<Value>(_ value: (TokenState) -> Value) -> [Value?] { tokens.map { $0.id == nil ? value($0) : nil } }
        return [
            .optionalInt64Array(tokens.map(\.id)), .timestampArray(tokens.map(\.registeredAt)),
            .optionalUUIDArray(changed(\.installation.uuid)), .optionalTimestampArray(changed(\.retired?.at)),
            .optionalTextArray(changed(\.retired?.reason.rawValue)), .optionalInt64Array(new(\.app)),
            .optionalTextArray(new(\.environment.rawValue)), .optionalTextArray(new(\.purpose.rawValue)),
            .optionalBytesArray(new(\.token.bytes)),
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

extension InstallationState {
    /// Nothing but its moment has to be written.
    fileprivate var isRefresh: Bool { isStored && writing == .refresh }
}

extension TokenState {
    fileprivate var isRefresh: Bool { id != nil && writing == .refresh }
}
