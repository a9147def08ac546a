/// One metric of a program: its HELP line and its row in the handbook's reference.
package struct DocumentedMetric: Sendable {
    package enum Kind: String, Sendable {
        case counter, gauge, histogram
    }

    package let name: String
    package let kind: Kind
    package let labels: [String]
    /// A sentence; the unit is in the name.
    package let help: String

    package init(_ name: String, _ kind: Kind, _ help: String) { self.init(name, kind, [], help) }

    package init(_ name: String, _ kind: Kind, _ labels: [String], _ help: String) {
        self.name = name
        self.kind = kind
        self.labels = labels
        self.help = help
    }

    package static func markdown(_ metrics: [DocumentedMetric]) -> String {
        MarkdownTable(
            "metric", "kind", "labels", "meaning",
            rows: metrics.map { metric in
                ["`\(metric.name)`", metric.kind.rawValue, metric.labels.map { "`\($0)`" }.joined(separator: ", "), metric.help]
            }
        ).text
    }
}

extension [DocumentedMetric] {
    /// Counters and gauges of a module that does not know this one. The names of counters end in `_total`.
    package init(_ rows: [(name: String, labels: [String], help: String)]) {
        self = rows.map { DocumentedMetric($0.name, $0.name.hasSuffix("_total") ? .counter : .gauge, $0.labels, $0.help) }
    }
}

/// One metadata key of log lines, as the handbook's reference shows it.
package struct DocumentedLogKey: Sendable {
    package let name: String
    package let meaning: String

    package init(_ name: String, _ meaning: String) {
        self.name = name
        self.meaning = meaning
    }

    /// Finds the keys among the stored properties of a value.
    package static func all(of keys: some Sendable) -> [DocumentedLogKey] {
        Mirror(reflecting: keys).children.compactMap { $0.value as? DocumentedLogKey }
    }

    package static func markdown(_ keys: [DocumentedLogKey]) -> String {
        MarkdownTable("key", "meaning", rows: keys.sorted { $0.name < $1.name }.map { ["`\($0.name)`", $0.meaning] }).text
    }
}

/// A table of the handbook's reference, which programs print and tests compare with the page.
package struct MarkdownTable {
    package let text: String

    package init(_ columns: String..., rows: [[String]]) {
        let lines = [columns, columns.map { _ in "---" }] + rows.map { row in row.map { $0.isEmpty ? "–" : $0 } }
        text = lines.map { "| " + $0.joined(separator: " | ") + " |" }.joined(separator: "\n")
    }

    /// - Parameter words: Words that are no code.
    package static func code(_ text: String, unless words: Set<String>) -> String { words.contains(text) ? text : "`\(text)`" }
}
