import Foundation
import StrictJSON

/// One figure beside its baseline and its bar.
package struct Measure: Sendable {
    package enum Bar: Sendable {
        /// The ratio to the baseline must be at least, or at most, this.
        case ratioAtLeast(Double)
        case ratioAtMost(Double)
        case valueAtLeast(Double)
        case valueAtMost(Double)
    }

    package var name: String
    package var value: Double
    package var unit: String
    package var baseline: String?
    package var baselineValue: Double?
    package var bar: Bar?

    package init(name: String, value: Double, unit: String, baseline: String? = nil, baselineValue: Double? = nil, bar: Bar? = nil) {
        self.name = name
        self.value = value
        self.unit = unit
        self.baseline = baseline
        self.baselineValue = baselineValue
        self.bar = bar
    }

    package var ratio: Double? { baselineValue.map { value / $0 } }

    package var holds: Bool {
        switch bar {
        case .ratioAtLeast(let bar): (ratio ?? 0) >= bar
        case .ratioAtMost(let bar): (ratio ?? .infinity) <= bar
        case .valueAtLeast(let bar): value >= bar
        case .valueAtMost(let bar): value <= bar
        case nil: true
        }
    }

    private var limit: Double? {
        switch bar {
        case .ratioAtLeast(let bar), .ratioAtMost(let bar), .valueAtLeast(let bar), .valueAtMost(let bar): bar
        case nil: nil
        }
    }

    /// Name, figure, baseline, ratio, bar, verdict.
    fileprivate var cells: [String] {
        let bound =
            switch bar {
            case .ratioAtLeast(let bar): ">= \(bar)"
            case .ratioAtMost(let bar): "<= \(bar)"
            case .valueAtLeast(let bar): ">= \(Self.text(bar)) \(unit)"
            case .valueAtMost(let bar): "<= \(Self.text(bar)) \(unit)"
            case nil: ""
            }
        return [
            name, "\(Self.text(value)) \(unit)", baselineValue.map { "\(baseline ?? "") \(Self.text($0))" } ?? "",
            ratio.map { String(format: "%.2f", $0) } ?? "", bound, bar == nil ? "" : holds ? "holds" : "MISSED",
        ]
    }

    package static func text(_ value: Double) -> String { String(format: value < 100 ? "%.2f" : "%.0f", value) }

    fileprivate func write(to writer: inout JSONWriter) {
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

/// The figures of a benchmark's parts: a table for people, and the JSON object for machines as the last line.
package struct BenchmarkReport {
    /// The benchmark's name for deploy/bench.
    private let bench: String
    private let wanted: [String]
    private var measures: [Measure] = []
    private var failures: [(part: String, reason: String)] = []

    /// - Parameters:
    ///   - bench: The benchmark's name for deploy/bench.
    ///   - wanted: The parts that run; empty: every part.
    package init(_ bench: String, wanted: [String] = []) {
        self.bench = bench
        self.wanted = wanted
    }

    /// Adds the figures of one part. If it fails, its figures are lost and no others.
    package mutating func add(_ part: String, _ measure: () async throws -> [Measure]) async {
        guard wanted.isEmpty || wanted.contains(part) else { return }
        do { measures += try await measure() } catch {
            failures.append((part, "\(error)"))
            progress("the part \(part) failed: \(error)")
        }
    }

    /// - Parameter path: A file for the JSON object.
    /// - Throws: ``BenchmarkError`` when all is printed, if a part failed.
    package func publish(json path: String?) throws {
        let rows = [["", "figure", "baseline", "ratio", "bar", ""]] + measures.map(\.cells)
        let widths = rows[0].indices.map { column in rows.map { $0[column].count }.max() ?? 0 }
        print("")
        for row in rows { print(zip(row, widths).map { Self.padded($0, $1) }.joined(separator: "  ")) }
        let object = json()
        if let path { try Data(object).write(to: URL(filePath: path)) }
        print(String(decoding: object, as: UTF8.self))
        guard failures.isEmpty else {
            throw BenchmarkError("no figures of \(failures.map { "\($0.part) (\($0.reason))" }.joined(separator: ", "))")
        }
    }

    private static func padded(_ text: String, _ width: Int) -> String { text + String(repeating: " ", count: max(0, width - text.count)) }

    private func json() -> [UInt8] {
        var writer = JSONWriter()
        writer.object { object in
            object.field("bench", bench)
            object.array("measures") { array in
                for measure in measures { array.object { measure.write(to: &$0) } }
            }
            if !failures.isEmpty { object.field("failed", failures.map(\.part)) }
        }
        return writer.bytes
    }
}

/// A line that is seen at once, also through a pipe.
package func progress(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }

package func median(_ values: [Double]) -> Double {
    let sorted = values.sorted()
    guard !sorted.isEmpty else { return 0 }
    return sorted.count % 2 == 1 ? sorted[sorted.count / 2] : (sorted[sorted.count / 2 - 1] + sorted[sorted.count / 2]) / 2
}
