import ChaosLedger

/// Whether tables grow as they are meant to: by their rows, and to nothing where they hold what is under way. What is changed and deleted leaves dead
/// rows behind, whose room is used again; a table in which it is not grows without rows.
struct TableWatch {
    /// From the first look to the last one, at least: in less time the room of dead rows is not free yet.
    static let shortest: Int64 = 600_000_000
    /// What a small table may take at once.
    static let slack: Int64 = 8 << 20
    /// Of a row, in a table that has hardly any: a page.
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
