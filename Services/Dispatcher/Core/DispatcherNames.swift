import Observability

/// Declares every log metadata key of this service with its meaning. Units are in the name. `LogKey.app` is the string `"app"`.
@dynamicMemberLookup
enum LogKey {
    struct Keys: Sendable {
        let api = DocumentedLogKey("api", "what a pool sends: `device`, `broadcast` or `channels`")
        let app = DocumentedLogKey("app", "an app's slug")
        let command = DocumentedLogKey("command.id", "a command for a broadcast channel")
        let count = DocumentedLogKey("count", "how many")
        let address = DocumentedLogKey("server.address", "address and port of APNs")
        let credential = DocumentedLogKey("credential", "the name of a credential")
        let days = DocumentedLogKey("days", "days until a certificate ends")
        let deliveries = DocumentedLogKey("deliveries", "deliveries in the job or message")
        let detail = DocumentedLogKey("detail", "the other side's own words")
        let environment = DocumentedLogKey("environment", "`production` or `sandbox`")
        let hold = DocumentedLogKey("hold.id", "a hold")
        let holds = DocumentedLogKey("holds", "holds in force")
        let instance = DocumentedLogKey("instance", "the dispatcher's name: `INSTANCE`")
        let lane = DocumentedLogKey("lane", "`now`, `soon` or `bulk`")
        let messageID = DocumentedLogKey("message.id", "a message of RabbitMQ")
        let new = DocumentedLogKey("new", "credentials that are new")
        let notification = DocumentedLogKey("notification.id", "a notification")
        let operation = DocumentedLogKey("operation", "what a command asks of APNs: `create`, `read`, `delete` or `list`")
        let outage = DocumentedLogKey("outage_ms", "how long it lasted, in milliseconds")
        let port = DocumentedLogKey("http.port", "the port of `/healthz`, `/readyz` and `/metrics`")
        let reason = DocumentedLogKey("reason", "why, in one word or in the other side's words")
        let result = DocumentedLogKey("result", "what became of a command")
        let state = DocumentedLogKey("state", "the state of a pool")
        let version = DocumentedLogKey("version", "this program's version and commit")
    }

    static let documented = DocumentedLogKey.all(of: keys)
    private static let keys = Keys()

    static subscript(dynamicMember key: KeyPath<Keys, DocumentedLogKey>) -> String { keys[keyPath: key].name }
}
