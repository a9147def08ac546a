import Foundation
import StrictJSON

/// Medians of alternating rounds, as a table for people and as the JSON object of DESIGN.md section 12.
struct Comparison {
    let name: String
    let baseline: (name: String, samples: [Sample])
    let subjects: [(name: String, samples: [Sample])]

    private struct Measure {
        let name: String
        let unit: String
        let value: Double
        let baseline: Double
        var ratio: Double { value / baseline }
    }

    private var measures: [Measure] {
        subjects.flatMap { subject in
            [
                Measure(
                    name: "rate, \(subject.name)", unit: "notifications/s", value: median(subject.samples.map(\.rate)),
                    baseline: median(baseline.samples.map(\.rate))),
                Measure(
                    name: "CPU, \(subject.name)", unit: "us/notification", value: median(subject.samples.map(\.cpuMicroseconds)),
                    baseline: median(baseline.samples.map(\.cpuMicroseconds))),
            ]
        }
    }

    func publish(json path: String?) throws {
        print("\nmedians of \(baseline.samples.count) rounds")
        for measure in measures {
            print(
                String(
                    format: "%-20@ %12.2f %-16@ %@ %12.2f   ratio %.2f", measure.name as NSString, measure.value, measure.unit as NSString,
                    baseline.name as NSString, measure.baseline, measure.ratio))
        }
        let object = json()
        if let path { try Data(object).write(to: URL(filePath: path)) }
        print(String(decoding: object, as: UTF8.self))
    }

    /// No bar is set yet, so nothing can fail to hold.
    private func json() -> [UInt8] {
        var writer = JSONWriter()
        writer.object { object in
            object.field("bench", name)
            object.array("measures") { array in
                for measure in measures {
                    array.object { entry in
                        entry.field("name", measure.name)
                        entry.field("value", measure.value)
                        entry.field("unit", measure.unit)
                        entry.field("baseline", baseline.name)
                        entry.field("baseline_value", measure.baseline)
                        entry.field("ratio", measure.ratio)
                        entry.null("bar")
                        entry.field("holds", true)
                    }
                }
            }
        }
        return writer.bytes
    }
}

private func median(_ values: [Double]) -> Double {
    let sorted = values.sorted()
    return sorted.count % 2 == 1 ? sorted[sorted.count / 2] : (sorted[sorted.count / 2 - 1] + sorted[sorted.count / 2]) / 2
}
