/// What one connection has prepared: name by statement text and parameter types.
///
/// A NULL fits any type, so a statement normally has one entry however its optional parameters come. The number of entries is
/// bounded by the literals in the program, so nothing is ever evicted.
struct PreparedStatements {
    struct Entry {
        let name: String
        let types: [PostgresType]

        func fits(_ parameters: [PostgresValue]) -> Bool {
            types.count == parameters.count && zip(types, parameters).allSatisfy { type, value in type == value.type || value.isNull }
        }
    }

    private var entries: [UInt64: [Entry]] = [:]
    private var made = 0

    func entry(for statement: PostgresStatement, _ parameters: [PostgresValue]) -> Entry? {
        entries[statement.fingerprint]?.first { $0.fits(parameters) }
    }

    /// A name that this connection has not used: a hash of the text, so that the server's logs show the same one everywhere, and a count.
    mutating func makeEntry(for statement: PostgresStatement, _ parameters: [PostgresValue]) -> Entry {
        made += 1
        return Entry(name: "push_\(String(statement.fingerprint, radix: 16))_\(made)", types: parameters.map(\.type))
    }

    mutating func insert(_ entry: Entry, for statement: PostgresStatement) {
        entries[statement.fingerprint, default: []].append(entry)
    }

    mutating func remove(_ names: some Sequence<String>) {
        let names = Set(names)
        for key in entries.keys { entries[key]?.removeAll { names.contains($0.name) } }
    }
}
