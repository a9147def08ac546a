/// A table of the handbook's reference, which programs print and tests compare with the page.
package struct MarkdownTable {
    package let text: String

    package init(_ columns: String..., rows: [[String]]) {
        let lines = [columns, columns.map { _ in "---" }] + rows.map { row in row.map { $0.isEmpty ? "–" : $0 } }
        text = lines.map { "| " + $0.joined(separator: " | ") + " |" }.joined(separator: "\n")
    }

    /// - Parameter words: those that are no code.
    package static func code(_ text: String, unless words: Set<String>) -> String { words.contains(text) ? text : "`\(text)`" }
}
