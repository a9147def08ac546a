package import Logging
package import Observability
import Postgres

extension Logger {
    /// Why the database refused a row, without the server's text: a trigger's may quote the row.
    package static func cause(of error: any Error) -> String {
        guard let error = error as? PostgresError else { return "\(type(of: error))" }
        // Our own text: the column and the types.
        guard let state = error.sqlState else { return error.code == .decoding ? error.message : "\(error.code)" }
        return "SQLSTATE \(state)" + (error.constraint.map { ", constraint \($0)" } ?? "")
    }

    /// Logs a round that failed, each time: the log leaves repetitions out. All loops log the same text for a database that cannot be
    /// reached, because it is one fault.
    package func failed(_ message: Message, _ error: any Error, _ metadata: Metadata = [:]) {
        if let error = error as? PostgresError, error.isUnavailable, !error.isOfSize {
            warning(
                "The database cannot be used: requests are answered 503, and everything else waits", metadata: [LogKey.error: "\(error)"])
        } else {
            warning(message, metadata: metadata.merging([LogKey.error: "\(String(describing: error))"]) { own, _ in own })
        }
    }
}

/// Declares every log metadata key of this service with its meaning. Units are in the name. `LogKey.app` is the string `"app"`.
@dynamicMemberLookup
package enum LogKey {
    package struct Keys: Sendable {
        package let app = DocumentedLogKey("app", "an app's slug")
        package let apps = DocumentedLogKey("apps", "the slugs of apps")
        package let count = DocumentedLogKey("count", "how many")
        package let deliveries = DocumentedLogKey("erased.deliveries", "deliveries that an erasure removed")
        package let delivery = DocumentedLogKey("delivery.id", "a delivery; the `apns-id` of its pushes")
        package let environment = DocumentedLogKey("environment", "`production` or `sandbox`")
        package let error = DocumentedLogKey("error", "the library's or the server's own words, without values")
        package let eventLog = DocumentedLogKey(
            "event.log", "the log that a feed reads: `notifications`, `installations` or `device_receipts`")
        package let eventRow = DocumentedLogKey("event.row", "the number of an event's row in its log")
        package let eventSink = DocumentedLogKey("event.sink", "where its events go: `broker` or `webhooks`")
        package let flagged = DocumentedLogKey("stale.flagged", "installations that were flagged as stale")
        package let hold = DocumentedLogKey("hold.id", "a hold")
        package let history = DocumentedLogKey("erased.history", "entries of history that an erasure removed")
        package let installations = DocumentedLogKey("erased.installations", "installations that an erasure removed")
        package let keyID = DocumentedLogKey("key.id", "an API key's id; never the key")
        package let lane = DocumentedLogKey("lane", "`now`, `soon` or `bulk`")
        package let messageID = DocumentedLogKey("message.id", "a message of RabbitMQ")
        package let notification = DocumentedLogKey("notification.id", "a notification")
        package let notifications = DocumentedLogKey("erased.notifications", "notifications that an erasure changed")
        package let outcome = DocumentedLogKey("outcome.class", "the class of an outcome")
        package let partitions = DocumentedLogKey("partitions", "partitions that were made or dropped")
        package let operationsPort = DocumentedLogKey(
            "operations.port", "the port of `/healthz`, `/readyz` and `/metrics`, if it is not the API's")
        package let port = DocumentedLogKey("http.port", "the port of the API")
        package let reason = DocumentedLogKey("reason", "why, in one word or in the other side's words")
        package let removed = DocumentedLogKey("stale.removed", "stale installations that were deregistered")
        package let route = DocumentedLogKey("http.route", "the route of a request, without its values")
        package let status = DocumentedLogKey("apns.status", "the HTTP status that APNs answered")
        package let table = DocumentedLogKey("table", "a table of PostgreSQL")
        package let tokens = DocumentedLogKey("erased.tokens", "tokens that an erasure removed")
        package let version = DocumentedLogKey("version", "this program's version and commit")
        package let versions = DocumentedLogKey("schema.versions", "the migrations that were applied")
        package let webhook = DocumentedLogKey("webhook.id", "a webhook's id")
    }

    package static let documented = DocumentedLogKey.all(of: keys)
    private static let keys = Keys()

    package static subscript(dynamicMember key: KeyPath<Keys, DocumentedLogKey>) -> String { keys[keyPath: key].name }
}
