import HTTPTypes
package import Observability
import PushModel
import TokenServiceEvents
import TokenServiceKit

/// The settings, metrics and log keys of the token service, as `--help`, `/metrics` and the handbook show them.
package enum TokenServiceReference {
    package static let settings = TokenServiceConfiguration.all
    package static let metrics = PrometheusMetrics.documented { _ = TokenServiceMetrics(registry: $0) } + TraceExporter.documented
    package static let logKeys = LogKey.documented

    /// Every word that the `code` of a problem document can be.
    package static var errors: String {
        MarkdownTable(
            "status", "code", "when", "the same request may succeed later",
            rows: ProblemCode.allCases.map { ($0, $0.kind, $0.kind.status.code) }.sorted { ($0.2, $0.0.rawValue) < ($1.2, $1.0.rawValue) }
                .map {
                    code, kind, status in
                    [
                        "\(status)", "`\(code.rawValue)`", kind.when,
                        kind.isRetryable ? (kind.retryAfterSeconds != nil ? "yes: `Retry-After`" : "yes") : "no",
                    ]
                }
        ).text
    }

    /// Every event: its topic, by which webhooks filter, and its CloudEvents type.
    package static var events: String {
        MarkdownTable(
            "topic", "CloudEvents `type`", "routing key",
            rows: (EventTopic.notifications + EventTopic.installations + EventTopic.deviceReceipts).map {
                ["`\($0)`", "`push.\($0).v1`", "`<app>.\($0)`"]
            }
                + OutcomeClass.allCases.map {
                    ["`\(EventTopic.delivery($0))`", "`\(OutcomeEvent.type)`", "`<app>.\($0.rawValue)`"]
                }
        ).text
    }
}
