import APNs
package import Observability
import PushModel

/// The settings, metrics and log keys of the dispatcher, as `--help`, `/metrics` and the handbook show them.
package enum DispatcherReference {
    package static let settings = ownSettings + TraceSettings.documented
    package static let metrics =
        PrometheusMetrics.documented { registry in
            let metrics = DispatcherMetrics(registry: registry)
            metrics.observe({ CoreStatus() }, gate: ControlGate())
            metrics.observe({ [] }, { .current })
        } + TraceExporter.documented
    package static let logKeys = LogKey.documented

    private static let ownSettings: [DocumentedSetting] = [
        DocumentedSetting(
            "operations.host", "127.0.0.1",
            "where `/healthz`, `/readyz` and `/metrics` are served"),
        DocumentedSetting(
            "operations.port", "9090",
            "0 to 65535; 0 takes any free port. At most 256 connections, each idle for at most 60 s"),
        DocumentedSetting(
            "rabbitmq.url", "required",
            "`amqp[s]://user:password@host:port,host:port/vhost`: one host or several, each a name or an address; see the guide Three nodes"
        ),
        DocumentedSetting(
            "rabbitmq.password.file", "none",
            "its first line replaces the URL's password; read again at every connect"),
        DocumentedSetting(
            "rabbitmq.ca.file", "none",
            "PEM authorities; required with `amqps://`"),
        DocumentedSetting(
            "broker.prefix", "push",
            "first word of every exchange and queue"),
        DocumentedSetting(
            "broker.topology", "services",
            "`services`: the services declare exchanges and queues; `operators`: they only check that `dispatcher topology` was "
                + "imported"),
        DocumentedSetting(
            "broker.confirm.patience.milliseconds", "650",
            "how long the broker may owe a confirmation before nothing is sent for any app until a marker has made the round of the "
                + "control stream, 200 to 10000. With the heartbeat (200 ms) and a tick (100 ms) 650 keeps the promise that nothing is "
                + "sent one second after a logout or a cancel. A larger value stops sending less often beside a slow broker, and "
                + "lengthens that second by as much"),
        DocumentedSetting(
            "apns.credentials.file", "required",
            "which key or certificate serves which apps; see the guide First real iPhone"),
        DocumentedSetting(
            "apns.credentials.check.seconds", "5",
            "how often its files are looked at for changes, 1 to 3600"),
        DocumentedSetting(
            "apns.production.url", "Apple's",
            "`https://host:port`. If a firewall blocks port 443: `https://api.push.apple.com:2197`, Apple's other port; for the "
                + "sandbox `https://api.sandbox.push.apple.com:2197`"),
        DocumentedSetting(
            "apns.sandbox.url", "Apple's",
            "`https://host:port`"),
        DocumentedSetting(
            "apns.production.broadcast.url", "APNS_PRODUCTION_URL",
            "`https://host:port` for broadcasts. Apple's pages also name `https://api-broadcast.push.apple.com`, and for the sandbox "
                + "`https://api-broadcast.sandbox.push.apple.com`"),
        DocumentedSetting(
            "apns.sandbox.broadcast.url", "APNS_SANDBOX_URL",
            "the same for the sandbox"),
        DocumentedSetting(
            "apns.production.channels.url", "Apple's",
            "`https://host:port` for the management of broadcast channels; Apple's is `https://api-manage-broadcast.push.apple.com:2196`"),
        DocumentedSetting(
            "apns.sandbox.channels.url", "Apple's",
            "the same for the sandbox; Apple's is `https://api-manage-broadcast.sandbox.push.apple.com:2195`"),
        DocumentedSetting(
            "apns.ca.file", "the system's",
            "PEM authorities that APNs' certificate must come from"),
        DocumentedSetting(
            "apns.proxy.url", "none",
            "`http://host:port` of an HTTP proxy through which APNs is reached (CONNECT); the proxy resolves APNs' names"),
        DocumentedSetting(
            "apns.proxy.credentials.file", "none",
            "a file with `user:password` for the proxy; read at start"),
        DocumentedSetting(
            "apns.threads", "the number of processors",
            "threads that serve the connections of all pools, 1 to 256; a pool is served by one of them"),
        DocumentedSetting(
            "apns.connections", "2",
            "connections that each pool keeps while it is in use, 1 to 64"),
        DocumentedSetting(
            "apns.connections.maximum", "8, or APNS_CONNECTIONS if that is more",
            "connections that a pool may open while its streams are used up, up to 64"),
        DocumentedSetting(
            "lanes", "now,soon,bulk",
            "the lanes that this process serves; see Two deployments of dispatchers in the guide Install in production"),
        DocumentedSetting(
            "prefetch.now", "1000",
            "messages of the lane, each a job, that may be here unsettled, 1 to 5000: bounds memory. One app alone has at most half "
                + "of them at work"),
        DocumentedSetting(
            "prefetch.soon", "1000",
            "the same"),
        DocumentedSetting(
            "prefetch.bulk", "1000",
            "the same"),
        DocumentedSetting(
            "bulk.deliveries", "800; 20000 without now in LANES",
            "deliveries of `bulk` that may be at work together, 1 to 200000, half of them of an app that is alone. More of them "
                + "wait longer for one another and delay the lane `now`; fewer send fewer a second: with answers after 80 ms, 400 of one "
                + "app are 5,000 a second"),
        DocumentedSetting(
            "maximum.attempts", "10",
            "tries that APNs answered, or left unanswered, before a delivery is given up, 1 to 1000"),
        DocumentedSetting(
            "instance", "host and process id",
            "names this process in outcomes (`source`) and in the broker's list of connections"),
        DocumentedSetting(
            "shutdown.deadline.seconds", "20",
            "how long a graceful stop may take, 1 to 600"),
        DocumentedSetting(
            "log.level", "info",
            "`trace`, `debug`, `info`, `notice`, `warning`, `error`, `critical`"),
    ]

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
