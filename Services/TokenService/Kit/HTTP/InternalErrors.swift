package import Logging
import Observability

/// Counts and logs what fails through the service's own fault: no caller can cause it, and none can mend it.
package struct InternalErrors: Sendable {
    private let count: @Sendable () -> Void
    private let logger: Logger

    /// - Parameter count: Counts one more.
    package init(count: @escaping @Sendable () -> Void, logger: Logger) {
        self.count = count
        self.logger = logger
    }

    /// What the caller is told of an error. Counts and logs the error if it is the service's own fault.
    /// - Parameter message: what failed, for the log.
    package func answer(to error: any Error, _ message: String, route: String? = nil) -> APIError {
        let problem = APIError(cause: error)
        if problem.code == .internalError {
            count()
            var metadata: Logger.Metadata = [LogKey.error: "\(String(describing: error))"]
            if let route { metadata[LogKey.route] = "\(route)" }
            logger.error("\(message)", metadata: metadata)
        }
        return problem
    }
}
