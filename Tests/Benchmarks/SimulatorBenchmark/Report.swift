import Foundation
import StrictJSON

/// One figure, its baseline and its bar (DESIGN.md section 12).
struct Measure {
    enum Bar {
        case ratioAtLeast(Double)
        case valueAtLeast(Double)
        case valueAtMost(Double)
    }

    let name: String
    let value: Double
    let unit: String
    let baseline: (name: String, value: Double)?
    let bar: Bar?

    init(_ name: String, _ value: Double, _ unit: String, baseline: (name: String, value: Double)? = nil, bar: Bar? = nil) {
        self.name = name
        self.value = value
        self.unit = unit
        self.baseline = baseline
        self.bar = bar
    }

    var ratio: Double? { baseline.map { value / $0.value } }

    /// The bar as a number, in words, and whether it is kept.
    fileprivate var verdict: (limit: Double?, text: String, holds: Bool) {
        switch bar {
        case .ratioAtLeast(let limit): (limit, "ratio ≥ \(limit)", (ratio ?? 0) >= limit)
        case .valueAtLeast(let limit): (limit, "≥ \(Report.text(limit))", value >= limit)
        case .valueAtMost(let limit): (limit, "≤ \(Report.text(limit))", value <= limit)
        case nil: (nil, "", true)
        }
    }
}

/// A table for people, and the JSON object for machines as the last line.
struct Report {
    let measures: [Measure]

    func publish(json path: String?) throws {
        print("")
        for measure in measures {
            let value = "\(Self.text(measure.value)) \(measure.unit)"
            let baseline =
                measure.baseline.map { "\($0.name) \(Self.text($0.value)), ratio \(String(format: "%.2f", measure.ratio ?? 0))" } ?? ""
            let verdict = measure.verdict
            print(
                Self.padded(measure.name, 40), Self.padded(value, 20), Self.padded(baseline, 32), verdict.text,
                verdict.limit == nil ? "" : verdict.holds ? "holds" : "MISSED")
        }
        let object = json()
        if let path { try Data(object).write(to: URL(filePath: path)) }
        print(String(decoding: object, as: UTF8.self))
    }

    static func text(_ value: Double) -> String { String(format: value < 100 ? "%.2f" : "%.0f", value) }
    private static func padded(_ text: String, _ width: Int) -> String { text + String(repeating: " ", count: max(0, width - text.count)) }

    private func json() -> [UInt8] {
        var writer = JSONWriter()
        writer.object { object in
            object.field("bench", "simulator")
            object.array("measures") { array in
                for measure in measures { array.object { Self.write(measure, to: &$0) } }
            }
        }
        return writer.bytes
    }

    private static func write(_ measure: Measure, to entry: inout JSONWriter) {
        func number(_ name: String, _ value: Double?, _ entry: inout JSONWriter) {
            if let value { entry.field(name, value) } else { entry.null(name) }
        }
        entry.field("name", measure.name)
        entry.field("value", measure.value)
        entry.field("unit", measure.unit)
        if let baseline = measure.baseline { entry.field("baseline", baseline.name) } else { entry.null("baseline") }
        number("baseline_value", measure.baseline?.value, &entry)
        number("ratio", measure.ratio, &entry)
        number("bar", measure.verdict.limit, &entry)
        entry.field("holds", measure.verdict.holds)
    }
}

func median(_ values: [Double]) -> Double {
    let sorted = values.sorted()
    return sorted.count % 2 == 1 ? sorted[sorted.count / 2] : (sorted[sorted.count / 2 - 1] + sorted[sorted.count / 2]) / 2
}
