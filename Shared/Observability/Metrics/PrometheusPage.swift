/// The text format 0.0.4 (Prometheus documentation, "Exposition formats").
struct PrometheusPage {
    private(set) var text = ""

    mutating func begin(_ name: String, kind: PrometheusMetrics.Kind, help: String?) {
        if let help { text += "# HELP \(name) \(PrometheusText.escapedHelp(help))\n" }
        text += "# TYPE \(name) \(kind.rawValue)\n"
    }

    mutating func sample(_ name: String, _ labels: PrometheusLabels, _ value: Double) {
        text += name
        text += labels.text
        text += " "
        text += PrometheusText.number(value)
        text += "\n"
    }

    /// - Parameter counts: one for each bound, and one for everything beyond.
    mutating func histogram(_ name: String, _ labels: PrometheusLabels, bounds: [Double], counts: [UInt64], sum: Double) {
        var total: UInt64 = 0
        for (index, count) in counts.enumerated() {
            total += count
            let bound = index < bounds.count ? bounds[index] : .infinity
            sample(name + "_bucket", labels.with("le", PrometheusText.number(bound)), Double(total))
        }
        sample(name + "_sum", labels, sum)
        sample(name + "_count", labels, Double(total))
    }
}

/// The labels of one series, sorted and escaped once: `{app="shop",lane="now"}`, or nothing.
struct PrometheusLabels: Hashable {
    static let overflow = PrometheusLabels([("overflow", "true")])

    let text: String

    /// If a name is given twice, the later value counts.
    init(_ dimensions: [(String, String)]) {
        guard !dimensions.isEmpty else {
            text = ""
            return
        }
        let unique = Dictionary(dimensions.map { (PrometheusText.labelName($0.0), $0.1) }, uniquingKeysWith: { $1 })
        let pairs = unique.sorted { $0.key < $1.key }.map { "\($0.key)=\"\(PrometheusText.escapedValue($0.value))\"" }
        text = "{" + pairs.joined(separator: ",") + "}"
    }

    private init(text: String) { self.text = text }

    /// Adds one more label; the value must need no escapes.
    func with(_ name: String, _ value: String) -> PrometheusLabels {
        PrometheusLabels(text: text.isEmpty ? "{\(name)=\"\(value)\"}" : text.dropLast() + ",\(name)=\"\(value)\"}")
    }
}

enum PrometheusText {
    /// `[a-zA-Z_:][a-zA-Z0-9_:]*`
    static func name(_ label: String, kind: PrometheusMetrics.Kind) -> String {
        let name = identifier(label, allowingColon: true)
        return kind == .counter && !name.hasSuffix("_total") ? name + "_total" : name
    }

    /// `[a-zA-Z_][a-zA-Z0-9_]*`; `le` is the histogram's own.
    static func labelName(_ label: String) -> String {
        let name = identifier(label, allowingColon: false)
        return name == "le" ? "le_" : name
    }

    private static func identifier(_ text: String, allowingColon: Bool) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "a"..."z", "A"..."Z", "_": result.unicodeScalars.append(scalar)
            case "0"..."9":
                if result.isEmpty { result = "_" }
                result.unicodeScalars.append(scalar)
            case ":" where allowingColon: result += ":"
            default: result += "_"
            }
        }
        return result.isEmpty ? "_" : result
    }

    static func escapedValue(_ text: String) -> String { escaped(text, quotes: true) }
    static func escapedHelp(_ text: String) -> String { escaped(text, quotes: false) }

    private static func escaped(_ text: String, quotes: Bool) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\"" where quotes: result += "\\\""
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }

    /// Whole numbers without a point, as people expect of counts.
    static func number(_ value: Double) -> String {
        if value == .infinity { return "+Inf" }
        if value == -.infinity { return "-Inf" }
        if value.isNaN { return "NaN" }
        if let whole = Int64(exactly: value) { return "\(whole)" }
        return "\(value)"
    }
}
