/// Rows of text under a header, in columns as wide as they need to be.
struct Table: CustomStringConvertible {
    private var rows: [[String]]

    init(_ header: String...) { rows = [header] }

    mutating func add(_ row: String...) { rows.append(row) }

    var description: String {
        let widths = rows[0].indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        return rows.map { row in
            let cells = zip(row, widths).map { cell, width in cell + String(repeating: " ", count: width - cell.count) }
            return String(cells.joined(separator: "  ").reversed().drop { $0 == " " }.reversed())
        }.joined(separator: "\n")
    }
}
