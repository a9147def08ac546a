import APNs
package import Observability
import PushModel

/// The settings, metrics and log keys of the dispatcher, as `--help`, `/metrics` and the handbook show them.
package enum DispatcherReference {
    package static let settings = DispatcherSettings.all
    package static let metrics =
        PrometheusMetrics.documented { registry in
            let metrics = DispatcherMetrics(registry: registry)
            metrics.observe({ CoreStatus() }, gate: ControlGate())
            metrics.observe({ [] }, { .current })
        } + TraceExporter.documented
    package static let logKeys = LogKey.documented

    /// What each reason of APNs means: for the delivery, and for the connection.
    package static var answers: String {
        MarkdownTable(
            "status", "reason", "the delivery", "the connection",
            rows: APNsReason.allCases.map { ($0.rawValue, $0.row) }.sorted { ($0.1.status, $0.0) < ($1.1.status, $1.0) }.map {
                reason, row in
                ["\(row.status)", "`\(reason)`", text(of: Consequence.of(row.effect)), text(of: row.reaction)]
            }
        ).text
    }

    private static func text(of consequence: Consequence) -> String {
        switch consequence {
        case .ends(let outcome): "ends as `\(outcome.rawValue)`"
        case .retries(let cause):
            "is tried again after \(cause.row.waits.map { "\(Int($0))" }.joined(separator: ", ")) s"
                + (cause.row.countsAsAttempt ? "; uses up an attempt" : "")
        case .stops(let outcome): "ends as `\(outcome.rawValue)`; nothing is sent"
        case .sendsSecondCopy: "is sent once more at once"
        case .waits: "waits"
        }
    }

    private static func text(of reaction: APNsConnectionReaction) -> String {
        switch reaction {
        case .keep: "stays"
        case .retire: "is replaced"
        case .replaceForToken: "is replaced; if the next one gets the same answer, the pool pauses"
        case .pausePool: "the pool pauses and probes"
        }
    }
}
