import ChaosLedger
import StrictJSON

/// The report of a run: a table for people, and JSON for machines.
package struct Report {
    let run: RunRecord
    let verdict: Verdict

    package init(_ checker: Checker) {
        run = checker.run
        verdict = checker.verdict
    }

    package var isKept: Bool { verdict.isKept }

    // MARK: For people

    package var text: String {
        let scenario = run.scenario.map { ", \($0)" } ?? ""
        let fault = run.deliberateFault.map { ", deliberate fault \($0)" } ?? ""
        var lines = ["Chaos: \(run.size)\(scenario), seed \(run.seed), commit \(run.commit)\(fault)", "  \(run.command)", ""]
        for (name, value) in figureRows + activityRows { lines.append("  \(padded(name, 34))\(padded(value, 14, isRight: true))") }
        lines += ["", "  \(padded("promise", 34))\(padded("found", 14, isRight: true))"]
        for promise in Promise.allCases {
            let isJudged = !verdict.notJudged.contains(promise)
            let value = isJudged ? "\(verdict.count(promise))" : "not judged"
            let mark = verdict.count(promise) > 0 ? "  BROKEN: \(promise.meaning)" : ""
            lines.append("  \(padded(promise.rawValue, 34))\(padded(value, 14, isRight: true))\(mark)")
        }
        for promise in Promise.allCases where verdict.count(promise) > 0 {
            let examples = verdict.examples[promise] ?? []
            let more = verdict.count(promise) - examples.count
            lines +=
                ["", "\(promise.rawValue): \(promise.meaning)"] + examples.map { "  - \($0)" } + (more > 0 ? ["  and \(more) more"] : [])
        }
        lines += ["", isKept ? "Every promise was kept." : "Promises were broken."]
        return lines.joined(separator: "\n") + "\n"
    }

    private func padded(_ text: String, _ width: Int, isRight: Bool = false) -> String {
        let blanks = String(repeating: " ", count: max(1, width - text.count))
        return isRight ? blanks + text : text + blanks
    }

    private var figureRows: [(String, String)] {
        let figures = verdict.figures
        let share = figures.seconds > 0 ? " (\(Int(Double(figures.delivered) / figures.seconds))/s)" : ""
        return [
            ("attempted", "\(figures.attempted)"), ("acknowledged (202)", "\(figures.acknowledged)"),
            ("recovered (no 202, yet sent)", "\(figures.recovered)"), ("deliveries pushed", "\(figures.deliveries)"),
            ("delivered", "\(figures.delivered)\(share)"), ("pushes", "\(figures.pushes)"), ("duplicated", "\(figures.duplicated)"),
            ("  explained by a killed dispatcher", "\(figures.explainedByKill)"),
            ("  by a lost connection", "\(figures.explainedByConnection)"), ("  by APNs' silence", "\(figures.explainedByAPNs)"),
            ("  published twice", "\(figures.explainedByPublisher)"),
            ("worst kill (bound \(run.inFlightBound))", "\(figures.worstKill)"), ("dispatchers killed", "\(figures.kills)"),
            ("faults", "\(figures.faults)"), ("late, because something stood still", "\(figures.excusedByFreeze)"),
            ("requests", "\(figures.requests)"), ("  5xx or no answer", "\(figures.refused)"),
            ("longest answer", "\(figures.longestAnswer / 1000) ms"),
            ("longest gap while work waited", "\(figures.longestStandstill / 1000) ms"),
            ("longest wait beside what stood still", "\(figures.longestDelay / 1000) ms"),
            ("longest time without a 202", "\(figures.longestWithoutAcceptance / 1000) ms"),
            ("connections to APNs", "\(figures.connections)"),
            ("  most in a second", "\(figures.connectionsPeak)"),
        ]
            + figures.overloads.flatMap(rows)
            + figures.memory.sorted { $0.key < $1.key }.map { name, bytes in
                (name, "\(bytes >> 20) MiB, \(figures.descriptors[name] ?? 0) fd, \(figures.threads[name] ?? 0) threads")
            }
    }

    private var activityRows: [(String, String)] {
        let figures = verdict.figures
        guard figures.activities > 0 else { return [] }
        return [
            ("Live Activities", "\(figures.activities)"), ("  lock screens with a certain state", "\(figures.lockScreens)"),
            ("  removed, and their end not shown", "\(figures.removed)"),
            ("  ends that the platform made", "\(figures.clearings)"),
        ]
    }

    private func rows(_ overload: Overload) -> [(String, String)] {
        [
            ("capacity", "\(Int(overload.capacity))/s"), ("  due under overload", "\(Int(overload.due))/s"),
            ("  sent of it", "\(Int(overload.sent))/s"),
            ("  accepted of it", "\(Int(overload.goodput))/s (\(Int(100 * overload.goodput / max(1, overload.capacity))) %)"),
            ("  shed of it", "\(Int(overload.shed))/s"), ("  without a connection", "\(Int(overload.unsent))/s"),
        ]
    }

    // MARK: For machines

    /// One object: `bench` and `measures` as every benchmark writes them, and the findings.
    package func json(withFindings: Bool) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 1 << 14)
        writer.object { object in
            object.field("bench", "chaos")
            object.field("size", run.size)
            object.field("scenario", run.scenario)
            object.field("seed", run.seed)
            object.field("commit", run.commit)
            object.field("command", run.command)
            object.field("deliberate_fault", run.deliberateFault)
            object.field("kept", isKept)
            object.array("measures") { list in writeMeasures(to: &list) }
            if withFindings { object.object("findings") { findings in writeFindings(to: &findings) } }
        }
        return writer.bytes
    }

    private func writeMeasures(to list: inout JSONWriter) {
        for promise in Promise.allCases where !verdict.notJudged.contains(promise) {
            list.object { object in
                object.field("name", promise.rawValue)
                object.field("value", verdict.count(promise))
                object.field("unit", "count")
                object.field("bar", "0")
                object.field("holds", verdict.count(promise) == 0)
            }
        }
        let figures = verdict.figures
        let values: [(String, Int)] = [
            ("attempted", figures.attempted), ("acknowledged", figures.acknowledged), ("recovered", figures.recovered),
            ("deliveries", figures.deliveries), ("delivered", figures.delivered), ("pushes", figures.pushes),
            ("duplicated", figures.duplicated), ("duplicated by a kill", figures.explainedByKill),
            ("duplicated by a lost connection", figures.explainedByConnection), ("duplicated by APNs' silence", figures.explainedByAPNs),
            ("published twice", figures.explainedByPublisher), ("worst kill", figures.worstKill), ("kills", figures.kills),
            ("faults", figures.faults), ("excused by a freeze", figures.excusedByFreeze), ("requests", figures.requests),
            ("refused", figures.refused), ("shed", figures.shed), ("connections", figures.connections),
            ("connections in a second", figures.connectionsPeak), ("Live Activities", figures.activities),
            ("lock screens", figures.lockScreens), ("removed from a lock screen", figures.removed),
            ("ends that the platform made", figures.clearings),
        ]
        for (name, value) in values {
            list.object { object in
                object.field("name", name)
                object.field("value", value)
                object.field("unit", "count")
            }
        }
        for (name, moment) in [
            ("longest answer", figures.longestAnswer), ("longest gap while work waited", figures.longestStandstill),
            ("longest wait beside what stood still", figures.longestDelay),
            ("longest time without a 202", figures.longestWithoutAcceptance),
        ] {
            list.object { object in
                object.field("name", name)
                object.field("value", moment / 1000)
                object.field("unit", "ms")
            }
        }
        for overload in figures.overloads {
            list.object { object in
                object.field("name", "goodput under overload, of the capacity")
                object.field("value", overload.goodput / max(1, overload.capacity))
                object.field("unit", "ratio")
                object.field("baseline", "accepted per second at saturation")
                object.field("baseline_value", overload.capacity)
            }
        }
        for (name, bytes) in figures.memory.sorted(by: { $0.key < $1.key }) {
            list.object { object in
                object.field("name", "memory of \(name)")
                object.field("value", bytes)
                object.field("unit", "bytes")
            }
        }
    }

    private func writeFindings(to object: inout JSONWriter) {
        for promise in Promise.allCases where verdict.count(promise) > 0 { object.field(promise.rawValue, verdict.examples[promise] ?? []) }
    }
}
