import Foundation
import StrictJSON

/// One figure beside its baseline and its bar (DESIGN.md section 12).
struct Measure {
    var name: String
    var value: Double
    var unit: String
    var baseline: String?
    var baselineValue: Double?
    var bar: Bar?

    enum Bar {
        /// The ratio to the baseline must be at least, or at most, this.
        case ratioAtLeast(Double)
        case ratioAtMost(Double)
        case valueAtMost(Double)
    }

    var ratio: Double? { baselineValue.map { value / $0 } }

    var holds: Bool {
        switch bar {
        case .ratioAtLeast(let bar): (ratio ?? 0) >= bar
        case .ratioAtMost(let bar): (ratio ?? .infinity) <= bar
        case .valueAtMost(let bar): value <= bar
        case nil: true
        }
    }

    fileprivate var limit: Double? {
        switch bar {
        case .ratioAtLeast(let bar), .ratioAtMost(let bar), .valueAtMost(let bar): bar
        case nil: nil
        }
    }

    fileprivate var verdict: String {
        switch bar {
        case .ratioAtLeast(let bar): "bar ≥ \(bar)  \(holds ? "holds" : "MISSED")"
        case .ratioAtMost(let bar): "bar ≤ \(bar)  \(holds ? "holds" : "MISSED")"
        case .valueAtMost(let bar): "bar ≤ \(bar) \(unit)  \(holds ? "holds" : "MISSED")"
        case nil: ""
        }
    }
}

/// A table for people, and the JSON object for machines as the last line.
struct Report {
    let measures: [Measure]

    func publish(json path: String?) throws {
        print("")
        for measure in measures {
            let baseline = measure.baseline.map { name in " \(name) \(Self.text(measure.baselineValue ?? 0))" } ?? ""
            let ratio = measure.ratio.map { "  ratio " + String(format: "%.2f", $0) } ?? ""
            let value = "\(Self.text(measure.value)) \(measure.unit)"
            print("\(Self.padded(measure.name, 44)) \(Self.padded(value, 26))\(baseline)\(ratio)  \(measure.verdict)")
        }
        let object = json()
        if let path { try Data(object).write(to: URL(filePath: path)) }
        print(String(decoding: object, as: UTF8.self))
    }

    private static func text(_ value: Double) -> String { String(format: value < 100 ? "%.2f" : "%.0f", value) }
    private static func padded(_ text: String, _ width: Int) -> String { text + String(repeating: " ", count: max(0, width - text.count)) }

    private func json() -> [UInt8] {
        var writer = JSONWriter()
        writer.object { object in
            object.field("bench", "registry")
            object.array("measures") { array in
                for measure in measures {
                    array.object { entry in
                        entry.field("name", measure.name)
                        entry.field("value", measure.value)
                        entry.field("unit", measure.unit)
                        Self.nullable("baseline", measure.baseline, &entry)
                        Self.nullable("baseline_value", measure.baselineValue, &entry)
                        Self.nullable("ratio", measure.ratio, &entry)
                        Self.nullable("bar", measure.limit, &entry)
                        entry.field("holds", measure.holds)
                    }
                }
            }
        }
        return writer.bytes
    }

    private static func nullable(_ name: String, _ value: Double?, _ entry: inout JSONWriter) {
        if let value { entry.field(name, value) } else { entry.null(name) }
    }

    private static func nullable(_ name: String, _ value: String?, _ entry: inout JSONWriter) {
        if let value { entry.field(name, value) } else { entry.null(name) }
    }
}

func median(_ values: [Double]) -> Double {
    let sorted = values.sorted()
    guard !sorted.isEmpty else { return 0 }
    return sorted.count % 2 == 1 ? sorted[sorted.count / 2] : (sorted[sorted.count / 2 - 1] + sorted[sorted.count / 2]) / 2
}
