package import Logging
import Observability

/// Counts and logs what fails through the service's own fault: no caller can cause it, and none can mend it.
package struct InternalErrors: Sendable {
    private let metrics: TokenServiceMetrics
    private let logger: Logger

    package init(metrics: TokenServiceMetrics, logger: Logger) {
        self.metrics = metrics
        self.logger = logger
    }

    /// What the caller is told of an error. Counts and logs the error if it is the service's own fault.
    /// - Parameter message: what failed, for the log.
    func answer(to error: any Error, _ message: String, route: String? = nil) -> APIError {
        let problem = APIError(cause: error)
        if problem.isOurFault {
            metrics.internalError()
            var metadata: Logger.Metadata = [LogKey.error: "\(String(describing: error))"]
            if let route { metadata[LogKey.route] = "\(route)" }
            logger.error("\(message)", metadata: metadata)
        }
        return problem
    }
}
