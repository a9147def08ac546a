import HTTPTypes
package import Observability
import PushModel

/// The settings, metrics and log keys of the token service, as `--help`, `/metrics` and the handbook show them.
package enum TokenServiceReference {
    package static let settings = ownSettings + TraceSettings.documented
    package static let metrics = PrometheusMetrics.documented { _ = TokenServiceMetrics(registry: $0) } + TraceExporter.documented
    package static let logKeys = LogKey.documented

    private static let ownSettings: [DocumentedSetting] = [
        DocumentedSetting(
            "http.host", "127.0.0.1",
            "where to listen"),
        DocumentedSetting(
            "http.port", "8080",
            "0 to 65535; 0 lets the system choose"),
        DocumentedSetting(
            "operations.port", "none",
            "serves `/healthz`, `/readyz` and `/metrics` on a port of their own, 0 to 65535; without it they are on `HTTP_PORT`"),
        DocumentedSetting(
            "operations.host", "127.0.0.1",
            "where to listen on `OPERATIONS_PORT`"),
        DocumentedSetting(
            "http.max.connections", "1000",
            "1 to 100000; keep the hard limit of open files (`ulimit -Hn`) 100 above it"),
        DocumentedSetting(
            "http.max.concurrent.requests", "500",
            "worked on at once before 503, 1 to 100000; a request counts once its body is there, and until the client has taken an answer of "
                + "more than 64 KiB"),
        DocumentedSetting(
            "http.max.concurrent.requests.per.key", "50",
            "of one key, those included whose body is still to come, before 429 for that key alone, 1 to 100000; by itself a tenth of "
                + "`HTTP_MAX_CONCURRENT_REQUESTS`; a device has three"),
        DocumentedSetting(
            "http.max.concurrent.requests.per.app", "100",
            "of all keys and devices of one app, counted alike, before 429 for that app alone, 1 to 100000; by itself a fifth of "
                + "`HTTP_MAX_CONCURRENT_REQUESTS`"),
        DocumentedSetting(
            "http.max.concurrent.streams", "16",
            "imports and exports under way before 503, 1 to 10000, half of them by one app; each holds up to two chunks (1 MiB each) or a page in memory"
        ),
        DocumentedSetting(
            "http.max.concurrent.uploads", "4",
            "long lists under way before 503, 1 to 1000, half of them by one app; each of the longest names takes about 140 MiB of memory"),
        DocumentedSetting(
            "http.max.body.mib", "32",
            "MiB of bodies above 64 KiB, uploads aside, in memory at once before 503, 8 to 65536, half of them by one app; they take several "
                + "times that while they are parsed"),
        DocumentedSetting(
            "http.requests.per.second.per.key", "20000",
            "in each process, 0 to 1000000, 0 for no limit; high, so that it stops only what has run away: give keys a lower one of "
                + "their own"),
        DocumentedSetting(
            "http.body.timeout.seconds", "30",
            "for a body or 64 KiB of it, 1 to 3600"),
        DocumentedSetting(
            "http.idle.timeout.seconds", "60",
            "for a request's head and between requests, 1 to 3600; longer than a load balancer's own"),
        DocumentedSetting(
            "postgres.url", "required",
            "libpq connection URI, several hosts and TLS options included; only a server that takes writes is used"),
        DocumentedSetting(
            "postgres.password.file", "none",
            "file with the password, read anew for every connection"),
        DocumentedSetting(
            "postgres.pool.size", "8",
            "connections for requests, 1 to 100; apps take turns at them"),
        DocumentedSetting(
            "postgres.background.pool.size", "4",
            "connections beside those, 1 to 100: for the relay, the outcomes, the other services of the process, and the look-up of keys and apps"
        ),
        DocumentedSetting(
            "rabbitmq.url", "required",
            "`amqp[s]://user:password@host:port,host:port/vhost`: one host or several, each a name or an address; see the guide Three nodes"
        ),
        DocumentedSetting(
            "rabbitmq.password.file", "none",
            "file with the password, read anew at every connect"),
        DocumentedSetting(
            "rabbitmq.ca.file", "none",
            "the broker's certificate authority, PEM; required with `amqps`"),
        DocumentedSetting(
            "broker.prefix", "push",
            "what every exchange and queue name begins with"),
        DocumentedSetting(
            "broker.topology", "services",
            "`services`: the services declare exchanges and queues; `operators`: they only check that `dispatcher topology` was "
                + "imported"),
        DocumentedSetting(
            "bootstrap.key.file", "none",
            "file with an administrator's key made by `pushctl keys generate`; only its hash is stored"),
        DocumentedSetting(
            "device.credential.keys.file", "none",
            "file with the keys that sign device credentials, one in each line (`openssl rand -hex 32`): the first signs, all verify; read at "
                + "start; the same for all token services. Without it none are made"),
        DocumentedSetting(
            "backlog.limit", "100000",
            "accepted notifications of an app that may wait in a lane for the broker; the next one gets 503"),
        DocumentedSetting(
            "fence.timeout.ms", "1000",
            "how long a logout waits for the broker's confirm, 1 to 10000"),
        DocumentedSetting(
            "relay.interval.ms", "1000",
            "how often the relay looks for left-over work, 10 to 60000"),
        DocumentedSetting(
            "relay.lease.seconds", "30",
            "how long a process has a notification for itself, 1 to 3600"),
        DocumentedSetting(
            "fan.out.page.installations", "10000",
            "installations that a fan-out looks at before it moves its checkpoint, 100 to 100000: bounds memory, and what is "
                + "published twice after a kill"),
        DocumentedSetting(
            "shutdown.deadline.seconds", "20",
            "how long a graceful stop may take, 1 to 600"),
        DocumentedSetting(
            "housekeeping.interval.seconds", "3600",
            "from one round of stale installations and retention to the next, over the whole fleet, unless stale installations are left; "
                + "1 to 86400"),
        DocumentedSetting(
            "history.retention.days", "90",
            "how long the history of installations, the audit trail and ended holds are kept at least, 1 to 3650; all but holds go in "
                + "periods of an eighth of it"),
        DocumentedSetting(
            "retired.token.retention.days", "90",
            "how long retired and quarantined tokens are kept, 1 to 3650"),
        DocumentedSetting(
            "receipt.retention.days", "30",
            "how long notifications that are over are kept at least with their receipts, 1 to 3650; they go in periods of an eighth "
                + "of it"),
        DocumentedSetting(
            "channels.list.interval.seconds", "3600",
            "how often the broadcast channels of each app and environment are compared with Apple's list, 1 to 86400"),
        DocumentedSetting(
            "channels.command.timeout.ms", "15000",
            "for so long a dispatcher may begin a request about a channel, and for as long again it may wait for Apple, 100 to 300000"),
        DocumentedSetting(
            "webhook.retry.seconds", "5,300,1800,7200,18000,36000,36000",
            "how long after each failed attempt the next one is made (up to a fifth more); after the last one a message is given "
                + "up. 1 to 20 numbers, 0 to 86400"),
        DocumentedSetting(
            "webhook.timeout.seconds", "15",
            "for one attempt as a whole, 1 to 60"),
        DocumentedSetting(
            "webhook.disable.after.days", "5",
            "a webhook that nothing succeeded with for so long is disabled, 1 to 30"),
        DocumentedSetting(
            "webhook.backlog.limit", "100000",
            "a webhook for which more messages wait is disabled, 1 to 10000000"),
        DocumentedSetting(
            "webhook.retention.days", "7",
            "how long messages are kept, sent or not, 1 to 90; unread state changes of notifications a day longer"),
        DocumentedSetting(
            "webhook.ca.file", "none",
            "PEM file of authorities to trust besides the system's"),
        DocumentedSetting(
            "webhook.insecure", "false",
            "for development: webhooks may be plain http and lead to this machine; no setting permits other private addresses, "
                + "which are refused when a webhook is made or changed (`address_not_allowed`) and before each connection"),
        DocumentedSetting(
            "log.level", "info",
            "trace, debug, info, notice, warning, error, critical"),
    ]

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
