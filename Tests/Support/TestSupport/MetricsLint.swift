/// The rules of `promtool check metrics` (Prometheus 2.42) for a page of metrics, without promtool.
package struct MetricsLint {
    private struct Family {
        var help = ""
        var type = ""
        var labels: Set<String> = []
        var hasSamples = false
    }

    private var families: [String: Family] = [:]
    private var faults: [String] = []

    /// - Returns: `metric: what is wrong`.
    package static func faults(of page: String) -> [String] {
        var lint = MetricsLint()
        lint.read(page)
        for (name, family) in lint.families.sorted(by: { $0.key < $1.key }) { lint.check(name, family) }
        return lint.faults
    }

    /// The metrics of a page that have a sample.
    package static func names(in page: String) -> Set<String> {
        var lint = MetricsLint()
        lint.read(page)
        return Set(lint.families.filter(\.value.hasSamples).keys)
    }

    // MARK: Reading

    private mutating func read(_ page: String) {
        for line in page.split(separator: "\n") {
            let words = line.split(separator: " ", maxSplits: 3, omittingEmptySubsequences: false).map(String.init)
            guard words.first == "#" else {
                readSample(line)
                continue
            }
            guard words.count == 4 else {
                faults.append("\(line): nothing is said")
                continue
            }
            switch words[1] {
            case "HELP" where families[words[2]]?.help.isEmpty ?? true: families[words[2], default: Family()].help = words[3]
            case "TYPE" where families[words[2]]?.type.isEmpty ?? true: families[words[2], default: Family()].type = words[3]
            default: faults.append("\(words[2]): \(words[1]) twice")
            }
        }
    }

    private mutating func readSample(_ line: Substring) {
        let sample = String(line.prefix { $0 != "{" && $0 != " " })
        let name = family(of: sample)
        families[name, default: Family()].hasSamples = true
        for label in line.matches(of: /[{,]([A-Za-z_0-9]+)="(?:[^"\\]|\\.)*"/).map(\.output.1) {
            families[name]?.labels.insert(String(label))
        }
    }

    private func family(of sample: String) -> String {
        for suffix in ["_bucket", "_sum", "_count"] where sample.hasSuffix(suffix) {
            let name = String(sample.dropLast(suffix.count))
            if families[name]?.type == "histogram" { return name }
        }
        return sample
    }

    // MARK: Rules

    private static let abbreviations = ["s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "tb", "pb", "m", "h", "d"]
    /// Units, each with the base unit that Prometheus wants instead. A prefix makes another unit of a base unit.
    private static let otherUnits = [
        "minutes": "seconds", "hours": "seconds", "days": "seconds", "weeks": "seconds", "bits": "bytes", "kelvins": "kelvin",
    ]
    private static let baseUnits = ["seconds", "bytes", "grams", "joules", "meters", "volts", "amperes"]

    private mutating func check(_ name: String, _ family: Family) {
        func fault(_ text: String) { faults.append("\(name): \(text)") }
        if family.help.isEmpty { fault("no help") }
        if family.type.isEmpty { fault("no type") }
        if family.type == "counter", !name.hasSuffix("_total") { fault("a counter without _total") }
        if family.type != "counter", name.hasSuffix("_total") { fault("_total, and no counter") }
        if family.type != "histogram" {
            for suffix in ["_bucket", "_sum", "_count"] where name.hasSuffix(suffix) { fault("\(suffix), and no histogram") }
            if family.labels.contains("le") { fault("the label le, and no histogram") }
        }
        for word in ["counter", "gauge", "histogram", "summary"] where name.holds(word) { fault("its type in its name") }
        if name.contains(":") { fault("a colon, which is for recording rules") }
        for text in [name] + family.labels where text.firstMatch(of: /[a-z][A-Z]/) != nil { fault("\(text) is in camel case") }
        for word in Self.abbreviations where name.holds(word) { fault("the unit \(word) is not written out") }
        for word in name.split(separator: "_").map(String.init) {
            let base = Self.otherUnits[word] ?? Self.baseUnits.first { word.hasSuffix($0) && word != $0 }
            if let base { fault("\(word) instead of \(base)") }
        }
    }
}

extension String {
    /// Matches a whole word after an underscore.
    fileprivate func holds(_ word: String) -> Bool { contains("_\(word)_") || hasSuffix("_\(word)") }
}
