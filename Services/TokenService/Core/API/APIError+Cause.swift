import Broker
import HTTPTypes
import Hummingbird
import NIOHTTP1
import Postgres
import PushModel
import RabbitMQ
import StrictJSON

extension APIError {
    /// The error that a caller sees for an error of a lower layer. An error that this does not list is our fault, and the answer gives no
    /// details.
    init(cause error: any Error) {
        switch error {
        case let error as APIError: self = error
        case is OwnerMismatch:
            self = APIError(
                .conflict, "owner_mismatch", "Another user is signed in",
                "the installation's user is not the expected one; nothing was changed")
        case is PreconditionFailed:
            self = APIError(
                .preconditionFailed, "precondition_failed", "The state is another one",
                "If-Match names another state than the present one; read it again. Nothing was changed")
        case is NotRegistered: self = .notFound
        case let error as TooManyChanges:
            self = APIError(
                .tooManyRequests, "too_many_changes", "The installation changes too often",
                "an installation may make \(InstallationBounds().lines) lines of history in an hour; nothing was changed")
            isRetryable = true
            retryAfterSeconds = error.retryAfterSeconds
        case is CommitQueueFull:
            self = .unavailable("overloaded", "too many requests wait for the database", retryAfterSeconds: 1)
        case is ActivityExists:
            self = APIError(
                .conflict, "activity_exists", "The Live Activity exists",
                "an activity of this id is not over; update or end it, or start another id. Nothing was accepted")
        case is ActivityOver:
            self = APIError(
                .gone, "activity_over", "The Live Activity is over",
                "the activity is over, and the token is that of another activity of the installation; nothing was changed")
        case is IdempotencyMismatch:
            self = APIError(
                .unprocessableContent, "idempotency_key_reused", "Idempotency-Key was used before",
                "this key was used with another body today or yesterday (UTC)")
        case is IdempotencyInProgress:
            self = APIError(
                .conflict, "idempotency_in_progress", "Idempotency-Key is in use",
                "another request with this key is still being worked on; repeat this one to learn what became of it")
            isRetryable = true
            retryAfterSeconds = 1
        case is BodyTimedOut:
            self = APIError(.requestTimeout, "body_timeout", "The body did not arrive", "the request's body did not arrive in time")
            isRetryable = true
        case is HTTPParserError: self = .malformedHTTP
        case let full as BacklogFull:
            self = .unavailable(
                "backlog_full",
                "as many of this app's notifications wait for the message broker in the lane `\(full.lane.rawValue)` as may",
                retryAfterSeconds: 5)
        case let full as TooManyHolds:
            let detail = full.areInForce ? "are in force; lift one first" : "were set within 73 hours; set fewer, for longer"
            self = APIError(.conflict, "too_many_holds", "Too many holds", "\(full.maximum) holds \(detail)")
        case is UnknownNotification:
            self = .invalid([
                JSONProblem(pointer: "/notification", code: "unknown_notification", detail: "the app has no such notification")
            ])
        case is QueueIsBeingRead:
            self = APIError(
                .conflict, "dead_letters_busy", "The dead letters are being read", "another call reads them now; nothing was changed")
            isRetryable = true
        case is RabbitMQError: self = .unavailable("broker_unavailable", "the message broker cannot be asked now", retryAfterSeconds: 5)
        case let error as PostgresError where error.isUnavailable:
            self = .unavailable("database_unavailable", "the database cannot serve now", retryAfterSeconds: 1)
        case let error as PostgresError where error.sqlState == .undefinedTable:
            self = .unavailable("database_unavailable", "the database is not migrated yet", retryAfterSeconds: 5)
        case is StillStarting:
            self = .unavailable("database_unavailable", "the service is starting and does not know every key yet", retryAfterSeconds: 1)
        // A shutdown's deadline has passed.
        case is CancellationError:
            self = .unavailable("shutting_down", "this instance is stopping; another one answers", retryAfterSeconds: 1)
        case let error as HTTPError where error.status == .notFound: self = .notFound
        case let error as HTTPError where error.status == .methodNotAllowed: self = .methodNotAllowed(error.headers[.allow] ?? "")
        case let error as HTTPError where error.status.code < 500:
            self = APIError(error.status, "http_error", "The request is not valid", error.body ?? "the request is not valid HTTP here")
        default: self = APIError(.internalServerError, "internal_error", "Internal error", "this is our fault and was noted")
        }
    }

    /// Whether no caller can cause the error (``InternalErrors``).
    var isOurFault: Bool { status == .internalServerError }
}
