import APNs
package import Observability
import PushModel

/// The settings, metrics and log keys of the dispatcher, as `--help`, `/metrics` and the handbook show them.
package enum DispatcherReference {
    package static let settings = ownSettings + TraceSettings.documented
    package static let metrics = ownMetrics + TraceExporter.documented

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

    private static let ownMetrics: [DocumentedMetric] = [
        DocumentedMetric(
            MetricName.jobs, .counter, ["lane"],
            "Jobs taken from the broker."),
        DocumentedMetric(
            MetricName.deliveries, .counter,
            "Deliveries in the jobs taken."),
        DocumentedMetric(
            MetricName.outcomes, .counter, ["app", "class", "reason", "final"],
            "Outcomes of deliveries; an app that no credential names, and a reason that the dispatcher does not know, is `other`."),
        DocumentedMetric(
            MetricName.retries, .counter, ["delay"],
            "Deliveries put into a delayed queue."),
        DocumentedMetric(
            MetricName.held, .counter,
            "Deliveries put into a delayed queue because of a hold, each time that they were."),
        DocumentedMetric(
            MetricName.holds, .gauge,
            "Holds in force."),
        DocumentedMetric(
            MetricName.deadLettered, .counter,
            "Deliveries given up, and messages that are no job."),
        DocumentedMetric(
            MetricName.lettersLost, .counter,
            "Messages given up because no queue takes them, as a rule dead letters: their deliveries have their outcome and cannot "
                + "be replayed."),
        DocumentedMetric(
            MetricName.acknowledged, .counter,
            "Jobs of which everything is confirmed."),
        DocumentedMetric(
            MetricName.givenBack, .counter,
            "Jobs given back because the process stops."),
        DocumentedMetric(
            MetricName.duration, .histogram, ["lane"],
            "From the publishing of a job, which is when it is due, to the last answer of its first try."),
        DocumentedMetric(
            MetricName.queueAge, .histogram, ["lane"],
            "From the publishing of a job, which is when it is due, to its taking; first tries only."),
        DocumentedMetric(
            MetricName.settlement, .histogram,
            "From handing results to the broker to its confirmation."),
        DocumentedMetric(
            MetricName.controlApplied, .counter, ["kind"],
            "Fences, cancels, holds (`hold`, also one that is sent again) and their ends (`unhold`) that were read."),
        DocumentedMetric(
            MetricName.reloads, .counter, ["result"],
            "Changed credentials: `adopted` or `refused`."),
        DocumentedMetric(
            MetricName.credentialsCurrent, .gauge,
            "0 while what is in the credentials' files cannot be used."),
        DocumentedMetric(
            MetricName.inProgress, .gauge,
            "Jobs of which some delivery is undecided."),
        DocumentedMetric(
            MetricName.atWork, .gauge, ["lane"],
            "Deliveries of jobs that are not settled; for `bulk` at most about `BULK_DELIVERIES`, half of it while one app is alone."),
        DocumentedMetric(
            MetricName.unconfirmed, .gauge,
            "Publications that the broker has not confirmed."),
        DocumentedMetric(
            MetricName.controlCurrent, .gauge,
            "1 while the control stream is read to its end; at 0 nothing is sent."),
        DocumentedMetric(
            MetricName.controlDoubts, .counter,
            "Times that sending stopped for all apps because the control stream might be late: a lost connection, a confirmation "
                + "slower than `BROKER_CONFIRM_PATIENCE_MILLISECONDS`, or an entry that came as a copy only."),
        DocumentedMetric(
            MetricName.controlElsewhere, .gauge,
            "1 while the control stream is read at another broker node than the one that takes publishes: each 650 ms costs a "
                + "marker. After ten seconds the publisher goes to the reader's node."),
        DocumentedMetric(
            MetricName.outcomesRefused, .gauge,
            "1 while the broker refuses outcomes; then nothing is sent."),
        DocumentedMetric(
            MetricName.controlEntries, .gauge,
            "Fences and cancels remembered."),
        DocumentedMetric(
            MetricName.channelCommands, .counter, ["operation", "result"],
            "Commands for broadcast channels, by what became of them: `done`, `refused`, `unanswered`, `expired`, `no_credential`; "
                + "`undecodable` of operation `unknown` is a message that is no command."),
        DocumentedMetric(
            MetricName.poolState, .gauge, ["credential", "environment", "api", "state"],
            "1 for the state in which a pool is (`api`: `device`, `broadcast` or `channels`, made when it is first needed): `connecting`, `ready`, `idle`, `paused` (APNs refuses the credential), "
                + "`unavailable` (the breaker is open), `closed`."),
        DocumentedMetric(
            MetricName.proven, .gauge, ["credential", "environment", "api"],
            "1 once APNs has shown that it knows the credential."),
        DocumentedMetric(
            MetricName.credentialAge, .gauge, ["credential", "environment"],
            "Since a key's file was written, or a certificate's validity began."),
        DocumentedMetric(
            MetricName.certificateEndsIn, .gauge, ["credential", "environment"],
            "How long a certificate is still valid; negative after its end."),
        DocumentedMetric(
            MetricName.tokenAge, .gauge, ["credential", "environment", "api"],
            "Age of the oldest provider token in use."),
        DocumentedMetric(
            MetricName.connections, .gauge, ["credential", "environment", "api"],
            "Connections to APNs."),
        DocumentedMetric(
            MetricName.openStreams, .gauge, ["credential", "environment", "api"],
            "Requests without an answer yet."),
        DocumentedMetric(
            MetricName.streamLimit, .gauge, ["credential", "environment", "api"],
            "Requests that APNs allows at once."),
        DocumentedMetric(
            MetricName.requestsWaiting, .gauge, ["credential", "environment", "api", "lane"],
            "Requests that wait for a free stream."),
        DocumentedMetric(
            MetricName.requests, .counter, ["credential", "environment", "api"],
            "Requests sent."),
        DocumentedMetric(
            MetricName.answers, .counter, ["credential", "environment", "api", "topic", "answer"],
            "Answers, by status and reason; of a pool's topics beyond the first hundred `other`."),
        DocumentedMetric(
            MetricName.answerTime, .histogram, ["credential", "environment", "api"],
            "From handing a request to HTTP/2 to its answer."),
        DocumentedMetric(
            MetricName.timedOut, .counter, ["credential", "environment", "api"],
            "Requests without an answer for 15 s."),
        DocumentedMetric(
            MetricName.stopped, .counter, ["credential", "environment", "api"],
            "Requests that a fence, a cancel or their expiry stopped at the last moment."),
        DocumentedMetric(
            MetricName.handedOver, .counter, ["credential", "environment", "api"],
            "Requests that were certainly not processed, and handed to another connection."),
        DocumentedMetric(
            MetricName.refusedStreams, .counter, ["credential", "environment", "api"],
            "Requests that APNs refused unprocessed: REFUSED_STREAM, or above a GOAWAY's last stream."),
        DocumentedMetric(
            MetricName.connectionsOpened, .counter, ["credential", "environment", "api"],
            "Connections that came about."),
        DocumentedMetric(
            MetricName.connectionsLost, .counter, ["credential", "environment", "api"],
            "Connections that ended unasked for, or in silence."),
        DocumentedMetric(
            MetricName.connectionsRetired, .counter, ["credential", "environment", "api", "reason"],
            "Connections that took no more requests."),
        DocumentedMetric(
            MetricName.goAways, .counter, ["credential", "environment", "api", "reason"],
            "GOAWAYs, by APNs' reason, `none` or `other`."),
        DocumentedMetric(
            MetricName.unanswered, .counter, ["credential", "environment", "api"],
            "Requests that left and got no answer."),
        DocumentedMetric(
            MetricName.connectionsFailed, .counter, ["credential", "environment", "api"],
            "Connections that did not come about."),
    ]

    package static let logKeys: [DocumentedLogKey] = [
        DocumentedLogKey(LogKey.api, "what a pool sends: `device`, `broadcast` or `channels`"),
        DocumentedLogKey(LogKey.app, "an app's slug"),
        DocumentedLogKey(LogKey.command, "a command for a broadcast channel"),
        DocumentedLogKey(LogKey.count, "how many"),
        DocumentedLogKey(LogKey.address, "address and port of APNs"),
        DocumentedLogKey(LogKey.credential, "the name of a credential"),
        DocumentedLogKey(LogKey.days, "days until a certificate ends"),
        DocumentedLogKey(LogKey.deliveries, "deliveries in the job or message"),
        DocumentedLogKey(LogKey.detail, "the other side's own words"),
        DocumentedLogKey(LogKey.environment, "`production` or `sandbox`"),
        DocumentedLogKey(LogKey.hold, "a hold"),
        DocumentedLogKey(LogKey.holds, "holds in force"),
        DocumentedLogKey(LogKey.instance, "the dispatcher's name: `INSTANCE`"),
        DocumentedLogKey(LogKey.lane, "`now`, `soon` or `bulk`"),
        DocumentedLogKey(LogKey.messageID, "a message of RabbitMQ"),
        DocumentedLogKey(LogKey.new, "credentials that are new"),
        DocumentedLogKey(LogKey.notification, "a notification"),
        DocumentedLogKey(LogKey.operation, "what a command asks of APNs: `create`, `read`, `delete` or `list`"),
        DocumentedLogKey(LogKey.outage, "how long it lasted, in milliseconds"),
        DocumentedLogKey(LogKey.port, "the port of `/healthz`, `/readyz` and `/metrics`"),
        DocumentedLogKey(LogKey.reason, "why, in one word or in the other side's words"),
        DocumentedLogKey(LogKey.result, "what became of a command"),
        DocumentedLogKey(LogKey.state, "the state of a pool"),
        DocumentedLogKey(LogKey.version, "this program's version and commit"),
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
