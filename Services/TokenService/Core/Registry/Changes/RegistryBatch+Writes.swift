import Postgres
import PushModel

extension RegistryBatch {
    typealias Command = (PostgresStatement, [PostgresValue])

    /// Rows are written in ascending order of their keys, as verdicts do. Statements follow one another, so a cycle with a verdict is
    /// possible all the same; then PostgreSQL ends one of the two, and it runs again.
    var installationWrites: [Command] {
        let keys = installations.values.lazy.filter { !$0.isStored || $0.writing != .nothing }.map(\.key).sorted()
        return keys.isEmpty ? [] : [(RegistryBatchStore.writeInstallations, written(keys))]
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
    /// For ``RegistryBatchStore/writeInstallations``: its columns, filled row by row, because a row is large to copy.
    private func written(_ keys: [InstallationKey]) -> [PostgresValue] {
        var registered: [Int64] = []
        var isNew: [Bool] = []
        var epochs: [Int64?] = []
        var moments = (created: [Int64?](), deregistered: [Int64?](), stale: [Int64?]())
        var texts = [[String?]](repeating: [], count: 8)
        func append(_ row: borrowing InstallationState) {
            let isRefresh = row.isRefresh
            registered.append(row.registeredAt)
            isNew.append(!row.isStored)
            epochs.append(isRefresh ? nil : row.epoch)
            moments.created.append(isRefresh ? nil : row.createdAt)
            moments.deregistered.append(isRefresh ? nil : row.deregisteredAt)
            moments.stale.append(isRefresh ? nil : row.staleSince)
            guard !isRefresh else {
                for column in texts.indices { texts[column].append(nil) }
                return
            }
            let profile = row.profile
            let values = [
                row.owner, row.signedOutReason?.rawValue, profile.locale, profile.timeZone, profile.appVersion, profile.osVersion,
                profile.deviceModel, Self.arrayLiteral(profile.tags),
            ]
            for column in values.indices { texts[column].append(values[column]) }
        }
        for key in keys { if let row = installations[key] { append(row) } }
        return [
            .int64Array(keys.map(\.app)), .ids(keys.map(\.id)), .timestampArray(registered), .boolArray(isNew), .optionalInt64Array(epochs),
            .optionalTextArray(texts[0]), .optionalTextArray(texts[1]), .optionalTimestampArray(moments.created),
            .optionalTimestampArray(moments.deregistered), .optionalTimestampArray(moments.stale), .optionalTextArray(texts[2]),
            .optionalTextArray(texts[3]), .optionalTextArray(texts[4]), .optionalTextArray(texts[5]), .optionalTextArray(texts[6]),
            .optionalTextArray(texts[7]),
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
