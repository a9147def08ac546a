import HTTPTypes
package import Observability
import PushModel

/// The settings, metrics and log keys of the token service, as `--help`, `/metrics` and the handbook show them.
package enum TokenServiceReference {
    package static let settings = ownSettings + TraceSettings.documented
    package static let metrics = ownMetrics + TraceExporter.documented

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

    private static let ownMetrics: [DocumentedMetric] = [
        DocumentedMetric(
            MetricName.requests.rawValue, .counter, ["method", "route", "status"],
            "Requests answered; the method is one of RFC 9110's, PATCH or `other`. The route is `none` for an unknown path, "
                + "and for a request that is refused before its path is read."),
        DocumentedMetric(
            MetricName.requestTime.rawValue, .histogram, ["method", "route"],
            "Time to answer."),
        DocumentedMetric(
            MetricName.requestsInProgress.rawValue, .gauge,
            "Requests that are being worked on. Their bodies are there."),
        DocumentedMetric(
            MetricName.requestsReading.rawValue, .gauge,
            "Requests whose body is still to come."),
        DocumentedMetric(
            MetricName.streamsInProgress.rawValue, .gauge,
            "Imports and exports that are under way."),
        DocumentedMetric(
            MetricName.internalErrors.rawValue, .counter,
            "Requests, and items of requests, that failed through the service's own fault; the log says why."),
        DocumentedMetric(
            MetricName.requestsRateLimited.rawValue, .counter, ["limit"],
            "Answers 429: one caller has used up what is its own. Limit: rate, or its share of requests, streams, uploads, bodies."),
        DocumentedMetric(
            MetricName.requestsShed.rawValue, .counter, ["reason"],
            "Answers 503 `overloaded`; start more instances when it grows. Reason: requests, streams, uploads, bodies."),
        DocumentedMetric(
            MetricName.registrations.rawValue, .counter, ["result"],
            "Registrations. Result: created, updated."),
        DocumentedMetric(
            MetricName.signOuts.rawValue, .counter,
            "Installations signed out by request."),
        DocumentedMetric(
            MetricName.accepted.rawValue, .counter, ["lane", "replay"],
            "Notifications accepted, and repeats of accepted ones."),
        DocumentedMetric(
            MetricName.published.rawValue, .counter,
            "Notifications whose jobs the broker has confirmed."),
        DocumentedMetric(
            MetricName.holds.rawValue, .gauge,
            "What is held: scopes with a hold in force, as this process saw them last."),
        DocumentedMetric(
            MetricName.putAside.rawValue, .counter,
            "Fan-outs and jobs that were due and put aside because of a hold, each time that they were."),
        DocumentedMetric(
            MetricName.backlog.rawValue, .gauge, ["lane"],
            "Notifications that are committed and not published yet; alert when it grows."),
        DocumentedMetric(
            MetricName.relayStepsFailed.rawValue, .counter, ["step"],
            "Steps of the relay's rounds that failed. A step that fails rests for `RELAY_INTERVAL_MS`; alert if one goes on failing."),
        DocumentedMetric(
            MetricName.unreadableJobs.rawValue, .counter,
            "Jobs that cannot be read as they are stored, each time that the relay put them off; alert on any."),
        DocumentedMetric(
            MetricName.publishRefused.rawValue, .gauge, ["lane"],
            "1 while the broker takes none of the lane's jobs: its queue is full or gone; alert on any."),
        DocumentedMetric(
            MetricName.laneWait.rawValue, .gauge, ["lane"],
            "How long the oldest job has waited that is published and that no dispatcher has worked on; 0 if none waits. As of the last "
                + "look, every 2 s while PostgreSQL answers. Each process shows the jobs that it published, and after its start those of "
                + "the last day: use the largest."),
        DocumentedMetric(
            MetricName.laneSlack.rawValue, .gauge, ["lane"],
            "Time until the first of these jobs expires; at most 86400, which also stands for no waiting job. Use the smallest."),
        DocumentedMetric(
            MetricName.fanOutsLive.rawValue, .gauge,
            "Fan-outs through audiences that are under way in this process."),
        DocumentedMetric(
            MetricName.fanOutRead.rawValue, .counter,
            "Installations, and entries of lists, that fan-outs have looked at."),
        DocumentedMetric(
            MetricName.fanOutJobs.rawValue, .counter,
            "Jobs that fan-outs have written."),
        DocumentedMetric(
            MetricName.fanOutOldest.rawValue, .gauge,
            "How long the oldest unfinished fan-out of the fleet has been due; alert when it grows while "
                + "`fan_out_installations_total` stands still."),
        DocumentedMetric(
            MetricName.outcomes.rawValue, .counter, ["class"],
            "Deliveries that got their final outcome."),
        DocumentedMetric(
            MetricName.repeatedOutcomes.rawValue, .counter,
            "Final outcomes reported again, or of unknown deliveries."),
        DocumentedMetric(
            MetricName.undecodableOutcomes.rawValue, .counter,
            "Outcome messages put aside; alert on any."),
        DocumentedMetric(
            MetricName.refusedOutcomes.rawValue, .counter,
            "Outcomes of single deliveries that PostgreSQL refused as they came; alert on any."),
        DocumentedMetric(
            MetricName.completed.rawValue, .counter,
            "Notifications whose every delivery has its outcome."),
        DocumentedMetric(
            MetricName.retired.rawValue, .counter, ["reason"],
            "Tokens retired because APNs said so. Reason: gone, rejected."),
        DocumentedMetric(
            MetricName.doubtful.rawValue, .counter,
            "Start tokens of Live Activities that became doubtful: APNs accepts starts, and no activity is reported."),
        DocumentedMetric(
            MetricName.endedAgain.rawValue, .counter,
            "Tokens that APNs ended for the third time or oftener; many: an app keeps tokens and registers them again."),
        DocumentedMetric(
            MetricName.braked.rawValue, .counter,
            "Batches in which rejected tokens were left alone; alert on any."),
        DocumentedMetric(
            MetricName.brakesEngaged.rawValue, .gauge,
            "Apps whose brake this process has seen engaged within ten minutes and not free since; alert on any."),
        DocumentedMetric(
            MetricName.quarantined.rawValue, .counter,
            "Tokens that had been retired and were put into quarantine."),
        DocumentedMetric(
            MetricName.restored.rawValue, .counter,
            "Tokens that came back out of quarantine."),
        DocumentedMetric(
            MetricName.superseded.rawValue, .counter,
            "Updates of Live Activities and broadcasts that a newer state replaced before they were sent."),
        DocumentedMetric(
            MetricName.corrected.rawValue, .counter,
            "Tokens that APNs took in another environment than they were registered for; many: an app's build names the wrong one."),
        DocumentedMetric(
            MetricName.throttled.rawValue, .counter,
            "Installations APNs asked to leave alone for a while."),
        DocumentedMetric(
            MetricName.erasures.rawValue, .counter,
            "Users erased by request, repetitions included."),
        DocumentedMetric(
            MetricName.staleFlagged.rawValue, .counter,
            "Installations flagged as stale."),
        DocumentedMetric(
            MetricName.staleRemoved.rawValue, .counter,
            "Stale installations deregistered because their app wants it."),
        DocumentedMetric(
            MetricName.deadLettersReplayed.rawValue, .counter,
            "Dead letters that were replayed and are gone."),
        DocumentedMetric(
            MetricName.deadLettersDropped.rawValue, .counter,
            "Dead letters that were dropped."),
        DocumentedMetric(
            MetricName.housekeepingRounds.rawValue, .counter, ["result"],
            "Rounds of stale installations and retention; one in which a part failed is failed, and its other parts are done: alert "
                + "when the fleet's `failed` grows and `finished` does not. Result: finished, failed."),
        DocumentedMetric(
            MetricName.retentionRemoved.rawValue, .counter, ["kind"],
            "Rows removed one by one because their retention was over; most go with their partition. Kind: tokens, fences, "
                + "token_moves, outcome_counts, notification_events, webhook_messages, activities, holds; unread_events: state changes that "
                + "are lost, because their app's queue took none or no process read them; quarantine: marks taken away; activity_tokens: "
                + "update tokens of Live Activities retired twelve hours after their report; doubtful_tokens: doubtful start tokens to which "
                + "a start goes again after a day."),
        DocumentedMetric(
            MetricName.retentionOverdue.rawValue, .gauge, ["table"],
            "For how long the oldest period has been past its retention; alert above 86400. Table: notifications, "
                + "installation_history, idempotency_records."),
        DocumentedMetric(
            MetricName.partitionsAhead.rawValue, .gauge, ["table"],
            "For how long rows still have a partition that was made for them; alert below 43200."),
        DocumentedMetric(
            MetricName.partitionsRestRows.rawValue, .gauge, ["table"],
            "Rows that came without a partition made for them, counted to 10,000; alert on any."),
        DocumentedMetric(
            MetricName.changesWaiting.rawValue, .gauge,
            "Registrations and changes that wait for a transaction; at 10,000 more are refused (503); alert when it stays above "
                + "1,000."),
        DocumentedMetric(
            MetricName.changesPerCommit.rawValue, .histogram,
            "How many of them shared a transaction."),
        DocumentedMetric(
            MetricName.commitsRepeated.rawValue, .counter, ["reason"],
            "Transactions of them that were run once more: ended by PostgreSQL to resolve a deadlock, or overtaken by an answer of APNs about "
                + "a token. Reason: conflict, answer."),
        DocumentedMetric(
            MetricName.eventsPublished.rawValue, .counter, ["log", "sink"],
            "State changes that were published, or looked at for webhooks. Log: notifications, installations, device_receipts; "
                + "Sink: broker, webhooks."),
        DocumentedMetric(
            MetricName.eventsWaiting.rawValue, .gauge, ["log", "sink"],
            "Rows of a log that this process is still to read; 0 in processes that do not read it; alert when it grows. The sink `counts`: "
                + "device receipts that are not in their notifications' counts yet."),
        DocumentedMetric(
            MetricName.webhookAttempts.rawValue, .counter, ["result"],
            "Attempts; `refused`: the name leads where nothing may be sent. Result: delivered, failed, gone, refused."),
        DocumentedMetric(
            MetricName.webhookMessagesFailed.rawValue, .counter,
            "Messages that were given up after their last attempt."),
        DocumentedMetric(
            MetricName.webhooksDisabled.rawValue, .counter, ["reason"],
            "Webhooks that were disabled because of what their receivers did; inform their owners. Reason: gone, failing, "
                + "backlog_full."),
        DocumentedMetric(
            MetricName.deviceReceipts.rawValue, .counter, ["result"],
            "Receipts that devices reported. Result: counted, repeated, refused."),
        DocumentedMetric(
            MetricName.webhookLag.rawValue, .gauge,
            "For how long the message that is due longest has waited; looked at every ten seconds; alert above a minute."),
        DocumentedMetric(
            MetricName.channels.rawValue, .gauge, ["environment", "state"],
            "Broadcast channels, looked at every 15 s by each process: use the largest; alert on any in state `lost`. State: creating, open, "
                + "deleting, failed, foreign, lost."),
        DocumentedMetric(
            MetricName.channelsLargestShare.rawValue, .gauge,
            "The largest share of Apple's 10,000 channels that one app has in one environment, from 0 to 1; alert above 0.9."),
        DocumentedMetric(
            MetricName.channelsPending.rawValue, .gauge,
            "For how long the channel that waits longest has been `creating` or `deleting`; alert above 600."),
        DocumentedMetric(
            MetricName.connections.rawValue, .gauge, ["pool", "state"],
            "The pools: `requests`, and `background` for the services of the process. State: idle, busy, waiting."),
    ]

    package static let logKeys: [DocumentedLogKey] = [
        DocumentedLogKey(LogKey.app, "an app's slug"),
        DocumentedLogKey(LogKey.apps, "the slugs of apps"),
        DocumentedLogKey(LogKey.count, "how many"),
        DocumentedLogKey(LogKey.deliveries, "deliveries that an erasure removed"),
        DocumentedLogKey(LogKey.delivery, "a delivery; the `apns-id` of its pushes"),
        DocumentedLogKey(LogKey.error, "the library's or the server's own words, without values"),
        DocumentedLogKey(LogKey.eventLog, "the log that a feed reads: `notifications`, `installations` or `device_receipts`"),
        DocumentedLogKey(LogKey.eventRow, "the number of an event's row in its log"),
        DocumentedLogKey(LogKey.eventSink, "where its events go: `broker` or `webhooks`"),
        DocumentedLogKey(LogKey.flagged, "installations that were flagged as stale"),
        DocumentedLogKey(LogKey.hold, "a hold"),
        DocumentedLogKey(LogKey.history, "entries of history that an erasure removed"),
        DocumentedLogKey(LogKey.installations, "installations that an erasure removed"),
        DocumentedLogKey(LogKey.keyID, "an API key's id; never the key"),
        DocumentedLogKey(LogKey.lane, "`now`, `soon` or `bulk`"),
        DocumentedLogKey(LogKey.messageID, "a message of RabbitMQ"),
        DocumentedLogKey(LogKey.notification, "a notification"),
        DocumentedLogKey(LogKey.notifications, "notifications that an erasure changed"),
        DocumentedLogKey(LogKey.outcome, "the class of an outcome"),
        DocumentedLogKey(LogKey.partitions, "partitions that were made or dropped"),
        DocumentedLogKey(LogKey.operationsPort, "the port of `/healthz`, `/readyz` and `/metrics`, if it is not the API's"),
        DocumentedLogKey(LogKey.port, "the port of the API"),
        DocumentedLogKey(LogKey.reason, "why, in one word or in the other side's words"),
        DocumentedLogKey(LogKey.removed, "stale installations that were deregistered"),
        DocumentedLogKey(LogKey.route, "the route of a request, without its values"),
        DocumentedLogKey(LogKey.status, "the HTTP status that APNs answered"),
        DocumentedLogKey(LogKey.table, "a table of PostgreSQL"),
        DocumentedLogKey(LogKey.tokens, "tokens that an erasure removed"),
        DocumentedLogKey(LogKey.version, "this program's version and commit"),
        DocumentedLogKey(LogKey.versions, "the migrations that were applied"),
        DocumentedLogKey(LogKey.webhook, "a webhook's id"),
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
