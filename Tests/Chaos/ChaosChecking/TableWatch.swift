import ChaosLedger

/// Whether tables grow only with their rows, and tables of work in progress are empty at the end. Changed and deleted rows leave dead rows
/// whose space is used again. A table whose space is not used again grows without rows.
struct TableWatch {
    /// The shortest time from the first look to the last one. In less time the space of dead rows is not free yet.
    static let shortest: Int64 = 600_000_000
    /// The growth that a small table may have at once.
    static let slack: Int64 = 8 << 20
    /// The size of a row in a nearly empty table: a page.
    private static let page: Int64 = 8192

    private var looks: [String: [SampleRecord.Table]] = [:]

    mutating func note(_ table: SampleRecord.Table) { looks[table.name, default: []].append(table) }

    /// - Parameters:
    ///   - emptyAtRest: Names of tables.
    ///   - since: When everything had come to its end; nil: it did not.
    /// - Returns: one sentence for each table that grew, or is not empty; nil where none was looked at.
    func findings(emptyAtRest: [String], since: Int64?) -> [String]? {
        guard !looks.isEmpty else { return nil }
        let left = emptyAtRest.compactMap { name -> String? in
            guard let since, let last = looks[name]?.last, last.at >= since, last.rows > 0 else { return nil }
            return "\(name) had \(last.rows) rows when everything had come to its end"
        }
        return left + looks.sorted { $0.key < $1.key }.compactMap { growth(of: $0.key, $0.value) }
    }

    /// The second quarter against the last one.
    private func growth(of name: String, _ looks: [SampleRecord.Table]) -> String? {
        guard let first = looks.first, let last = looks.last, last.at - first.at >= Self.shortest, looks.count >= 8 else { return nil }
        let (early, late) = (looks[looks.count * 3 / 8], looks[looks.count * 7 / 8])
        let rows = max(0, late.rows - early.rows)
        let bytes = late.bytes - early.bytes
        let perRow = early.rows >= 100 ? early.bytes / early.rows : Self.page
        guard bytes > Self.slack + early.bytes / 2 + rows * perRow * 3 / 2 else { return nil }
        return """
            \(name) took \(bytes >> 10) KiB more for \(rows) rows more, in \((late.at - early.at) / 60_000_000) minutes; \
            until then it took \(perRow) bytes for a row
            """
    }
}
