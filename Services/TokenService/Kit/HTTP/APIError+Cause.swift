import HTTPTypes
import Hummingbird
import NIOHTTP1
import Postgres
import RabbitMQ

/// An error that knows what its caller is told.
package protocol ProblemError: Error {
    var problem: APIError { get }
}

extension APIError {
    /// The error that a caller sees for a ``ProblemError``, or an error of a lower layer. An error that is neither is our fault, and the
    /// answer gives no details.
    init(cause error: any Error) {
        switch error {
        case let error as APIError: self = error
        case let error as any ProblemError: self = error.problem
        case is HTTPParserError: self = .malformedHTTP
        case is RabbitMQError: self = APIError(.brokerUnavailable, "the message broker cannot be asked now")
        case let error as PostgresError where error.isUnavailable:
            self = APIError(.databaseUnavailable, "the database cannot serve now")
        case let error as PostgresError where error.sqlState == .undefinedTable:
            self = APIError(.databaseUnavailable, "the database is not migrated yet", retryAfterSeconds: 5)
        // A shutdown's deadline has passed.
        case is CancellationError: self = APIError(.shuttingDown, "this instance is stopping; another one answers")
        case let error as HTTPError where error.status == .notFound: self = .notFound
        case let error as HTTPError where error.status == .methodNotAllowed: self = .methodNotAllowed(error.headers[.allow] ?? "")
        case let error as HTTPError where error.status.code < 500:
            self = APIError(.httpError, error.body ?? "the request is not valid HTTP here")
            status = error.status
        default: self = APIError(.internalError, "this is our fault and was noted")
        }
    }
}
