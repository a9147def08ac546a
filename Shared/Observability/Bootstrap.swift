import CoreMetrics
import Instrumentation
package import Logging
import Synchronization

/// Sets up the process: logs as JSON lines on standard error, metrics for Prometheus, trace context.
///
/// Call it once, before the first logger is made. A second call changes nothing and returns the first one's metrics, because the three
/// systems behind it can be set only once in a process.
/// - Parameters:
///   - service: The program's name, as in `push_build_info`.
/// - Returns: The metrics that an ``OperationsServer`` serves under `/metrics`.
@discardableResult
package func bootstrapObservability(service: String, level: Logger.Level) -> PrometheusMetrics {
    bootstrapped.withLock { known in
        if let known { return known }
        let metrics = PrometheusMetrics()
        ProcessMetrics.register(in: metrics, service: service)
        let repeats = RepeatedLines()
        LoggingSystem.bootstrap(
            { label, provider in
                JSONLogHandler(label: label, level: level, sink: .standardError, repeats: repeats, metadataProvider: provider)
            },
            metadataProvider: TraceContext.metadataProvider)
        MetricsSystem.bootstrap(metrics)
        InstrumentationSystem.bootstrap(TraceContextInstrument())
        known = metrics
        return metrics
    }
}

private let bootstrapped = Mutex<PrometheusMetrics?>(nil)
