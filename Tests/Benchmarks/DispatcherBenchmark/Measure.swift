import Foundation
import StrictJSON

/// One figure beside its baseline and its bar (DESIGN.md section 12).
struct Measure {
    enum Bar {
        /// The ratio to the baseline must be at least, or at most, this.
        case ratioAtLeast(Double)
        case ratioAtMost(Double)
        case valueAtMost(Double)
    }

    var name: String
    var value: Double
    var unit: String
    var baseline: String?
    var baselineValue: Double?
    var bar: Bar?

    var ratio: Double? { baselineValue.map { value / $0 } }

    var holds: Bool {
        switch bar {
        case .ratioAtLeast(let bar): (ratio ?? 0) >= bar
        case .ratioAtMost(let bar): (ratio ?? .infinity) <= bar
        case .valueAtMost(let bar): value <= bar
        case nil: true
        }
    }

    private var limit: Double? {
        switch bar {
        case .ratioAtLeast(let bar), .ratioAtMost(let bar), .valueAtMost(let bar): bar
        case nil: nil
        }
    }

    var line: String {
        let verdict =
            switch bar {
            case .ratioAtLeast(let bar): "bar >= \(bar)"
            case .ratioAtMost(let bar): "bar <= \(bar)"
            case .valueAtMost(let bar): "bar <= \(bar) \(unit)"
            case nil: ""
            }
        let beside = baselineValue.map { "\(baseline ?? ""): \(Self.text($0))" } ?? ""
        let ratioText = ratio.map { String(format: "%.2f", $0) } ?? ""
        return [
            Self.padded(name, 48), Self.padded("\(Self.text(value)) \(unit)", 26), Self.padded(beside, 36), Self.padded(ratioText, 6),
            verdict,
            bar == nil ? "" : holds ? "holds" : "MISSED",
        ].joined(separator: " ")
    }

    private static func text(_ value: Double) -> String { String(format: value < 1000 ? "%.2f" : "%.0f", value) }
    private static func padded(_ text: String, _ width: Int) -> String { text + String(repeating: " ", count: max(0, width - text.count)) }

    func write(to writer: inout JSONWriter) {
        writer.field("name", name)
        writer.field("value", value)
        writer.field("unit", unit)
        if let baseline { writer.field("baseline", baseline) } else { writer.null("baseline") }
        for (name, number) in [("baseline_value", baselineValue), ("ratio", ratio), ("bar", limit)] {
            if let number { writer.field(name, number) } else { writer.null(name) }
        }
        writer.field("holds", holds)
    }
}

/// A line that is seen at once, also through a pipe.
func progress(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }

/// A table for people, and the JSON object for machines as the last line.
func publish(_ measures: [Measure], json path: String?) throws {
    print("")
    for measure in measures { print(measure.line) }
    var writer = JSONWriter()
    writer.object { object in
        object.field("bench", "dispatcher")
        object.array("measures") { array in
            for measure in measures { array.object { measure.write(to: &$0) } }
        }
    }
    if let path { try Data(writer.bytes).write(to: URL(filePath: path)) }
    print(String(decoding: writer.bytes, as: UTF8.self))
}

func median(_ values: [Double]) -> Double {
    let sorted = values.sorted()
    guard !sorted.isEmpty else { return 0 }
    return sorted.count % 2 == 1 ? sorted[sorted.count / 2] : (sorted[sorted.count / 2 - 1] + sorted[sorted.count / 2]) / 2
}
