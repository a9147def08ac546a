/// The statements that one connection has prepared: name by text and parameter types.
///
/// A NULL has its type too, so a statement normally has one entry, whether its optional parameters are NULL or not. The literals in the
/// program bound the number of entries, so none is ever evicted.
struct PreparedStatements {
    struct Entry {
        let name: String
        let types: [PostgresType]

        func fits(_ parameters: [PostgresValue]) -> Bool { types.elementsEqual(parameters.lazy.map(\.type)) }
    }

    private var entries: [String: [Entry]] = [:]
    private var made = 0

    func entry(for query: PostgresQuery) -> Entry? { entries[query.sql]?.first { $0.fits(query.parameters) } }

    /// A name that this connection has not used: a hash of the text, so that the server's logs show the same one everywhere, and a count.
    mutating func makeEntry(for query: PostgresQuery) -> Entry {
        made += 1
        return Entry(name: "push_\(Self.fingerprint(query.sql))_\(made)", types: query.parameters.map(\.type))
    }

    mutating func insert(_ entry: Entry, for query: PostgresQuery) { entries[query.sql, default: []].append(entry) }

    mutating func remove(_ names: some Sequence<String>) {
        let names = Set(names)
        for key in entries.keys { entries[key]?.removeAll { names.contains($0.name) } }
    }

    /// FNV-1a.
    private static func fingerprint(_ sql: String) -> String {
        var hash: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in sql.utf8 { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01b3 }
        return String(hash, radix: 16)
    }
}
