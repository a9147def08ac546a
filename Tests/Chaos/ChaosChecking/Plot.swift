import ChaosLedger

/// The run as a picture (SVG): acceptances and pushes in each second, waiting jobs, and faults.
package struct Plot {
    private static let width = 1200.0
    private static let left = 70.0
    private static let panel = 180.0

    private let series: Series
    private let title: String

    package init(_ checker: Checker) {
        series = checker.series
        let run = checker.run
        title = "chaos \(run.size)\(run.scenario.map { " \($0)" } ?? ""), seed \(run.seed), commit \(run.commit)"
    }

    package var svg: String {
        let height = 60 + 2 * (Self.panel + 50)
        let rates = [
            ("accepted/s", "#1f77b4", series.seconds.map(\.accepted)), ("pushed/s", "#2ca02c", series.seconds.map(\.pushed)),
            ("refused/s", "#d62728", series.seconds.map(\.refused)),
        ]
        let backlog = [("jobs in queues", "#9467bd", series.seconds.map(\.backlog))]
        return """
            <svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 \(Int(Self.width)) \(Int(height))" font-family="sans-serif" font-size="12">
            <rect width="100%" height="100%" fill="white"/>
            <text x="\(Self.left)" y="22" font-size="15">\(escaped(title))</text>
            \(bars(top: 40, height: height - 70))
            \(lines(rates, top: 50))
            \(lines(backlog, top: 50 + Self.panel + 50))
            </svg>

            """
    }

    private var scale: Double { (Self.width - Self.left - 20) / Double(max(1, series.seconds.count)) }

    private func x(_ seconds: Double) -> Double { Self.left + min(Double(series.seconds.count), max(0, seconds)) * scale }

    /// Each fault from its beginning to its recovery, with its name as a tooltip.
    private func bars(top: Double, height: Double) -> String {
        series.bars.map { bar in
            let (from, to) = (x(Double(bar.from) / 1_000_000), x(Double(bar.to) / 1_000_000))
            return """
                <rect x="\(rounded(from))" y="\(top)" width="\(rounded(max(1.5, to - from)))" height="\(height)" fill="#ff7f0e" \
                fill-opacity="0.18"><title>\(escaped(bar.name)), \(bar.from / 1_000_000) to \(bar.to / 1_000_000) s</title></rect>
                """
        }.joined(separator: "\n")
    }

    private func lines(_ curves: [(name: String, colour: String, values: [Int])], top: Double) -> String {
        let highest = Double(max(1, curves.flatMap(\.values).max() ?? 1))
        let bottom = top + Self.panel
        var parts = [
            "<path d=\"M\(Self.left),\(top)V\(bottom)H\(Self.width - 20)\" fill=\"none\" stroke=\"#888\"/>",
            "<text x=\"\(Self.left - 6)\" y=\"\(top + 10)\" text-anchor=\"end\">\(Int(highest))</text>",
            "<text x=\"\(Self.left - 6)\" y=\"\(bottom)\" text-anchor=\"end\">0</text>",
            "<text x=\"\(Self.width - 20)\" y=\"\(bottom + 16)\" text-anchor=\"end\">\(series.seconds.count) s</text>",
        ]
        for (index, curve) in curves.enumerated() {
            let points = curve.values.enumerated().map { second, value in
                "\(rounded(x(Double(second) + 0.5))),\(rounded(bottom - Double(value) / highest * Self.panel))"
            }
            parts.append(
                "<polyline points=\"\(points.joined(separator: " "))\" fill=\"none\" stroke=\"\(curve.colour)\" stroke-width=\"1.2\"/>")
            parts.append(
                "<text x=\"\(Self.left + Double(index) * 120)\" y=\"\(bottom + 16)\" fill=\"\(curve.colour)\">\(curve.name)</text>")
        }
        return parts.joined(separator: "\n")
    }

    private func rounded(_ value: Double) -> Double { (value * 10).rounded() / 10 }

    private func escaped(_ text: String) -> String {
        var escaped = ""
        for character in text {
            switch character {
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "&": escaped += "&amp;"
            default: escaped.append(character)
            }
        }
        return escaped
    }
}
