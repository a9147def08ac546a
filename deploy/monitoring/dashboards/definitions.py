"""What the dashboards show. deploy/scripts/make-dashboards.py makes the JSON files from it, with the thresholds of the alerts."""

from dataclasses import dataclass

from alert_rules import comparison, rules

MEASURED = {rule.name: found[0] for rule in rules() if (found := comparison(rule.expression))}


@dataclass
class Panel:
    title: str
    description: str
    unit: str
    targets: list
    alerts: tuple = ()
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    is_stacked: bool = False
    # The panel shows what its first alert compares; False: another quantity, so only the link to the runbook.
    has_threshold: bool = True


@dataclass
class Dashboard:
    uid: str
    title: str
    description: str
    variables: list
    rows: list


def stat(title, description, unit, expression, legend, *alerts, **more):
    return Panel(title, description, unit, [(expression, legend)], alerts, kind="stat", width=6, height=4, **more)


def alert_panel(title, description, unit, alert, legend, *others, **more):
    """Shows what the alert compares with its threshold."""
    return Panel(title, description, unit, [(MEASURED[alert], legend)], (alert, *others), **more)


def rate(metric, by, labels=""):
    return f"sum by ({by}) (rate({metric}{labels}[$__rate_interval]))"


def quantiles(metric, labels="", shares=(0.5, 0.99)):
    return [
        (f"histogram_quantile({share}, sum by (le) (rate({metric}_bucket{labels}[$__rate_interval])))", f"p{round(share * 100)}")
        for share in shares
    ]


LANE = '{lane="$lane"}'
POOL = '{credential="$credential",environment="$environment"}'
APP = 'app="$app"'

OVERVIEW = Dashboard(
    "push-overview", "Push: overview", "Is the platform well, and what goes through it.", [],
    [
        ("Is it well", [
            stat("Alerts that fire", "Alerts of these rules that fire now.", "none",
                 'sum(ALERTS{alertname=~"Push.+",alertstate="firing"}) or vector(0)', "firing"),
            stat("Dispatchers and token services", "Processes that Prometheus reads.", "none",
                 'count by (service) (push_build_info)', "{{service}}", "PushProgramMissing", has_threshold=False),
            stat("Holds", "Scopes that an operator has stopped. Nothing of them is sent.", "none",
                 MEASURED["PushHoldLasts"], "holds", "PushHoldLasts"),
            stat("Apps with their brake engaged", "APNs rejects too many tokens of these apps, so the service retires none of them.",
                 "none", MEASURED["PushTokensRejected"], "apps", "PushTokensRejected"),
        ]),
        ("Traffic", [
            Panel("Accepted", "Notifications that the token services accepted for the first time.", "reqps",
                  [(rate("push_token_service_notifications_accepted_total", "lane", '{replay="false"}'), "{{lane}}")]),
            Panel("Pushes", "Requests that the dispatchers sent to APNs.", "reqps",
                  [(rate("push_dispatcher_apns_requests_total", "credential, environment"), "{{credential}} {{environment}}")],
                  is_stacked=True),
            Panel("Final outcomes", "Deliveries that ended, by the class of their outcome.", "ops",
                  [(rate("push_token_service_outcomes_total", "class"), "{{class}}")], is_stacked=True),
        ]),
        ("Delay", [
            Panel("Oldest waiting job", "For how long the oldest published job of a lane has waited for a dispatcher. The line is the limit "
                  "for now and soon.", "s", [("max by (lane) (push_token_service_lane_wait_seconds)", "{{lane}}")],
                  ("PushJobsWait", "PushLaneWithoutDispatcher")),
            Panel("Time to the first expiry", "Seconds until the first waiting job of a lane expires, at most a day.", "s",
                  [("min by (lane) (push_token_service_lane_slack_seconds)", "{{lane}}")]),
            alert_panel("Answered too late", "Share of jobs answered after the lane's objective, over five minutes. 1 % may be late.",
                        "percentunit", "PushAnswersLate", "{{lane}}", "PushAnswersLateForHours"),
            alert_panel("Publish backlog", "Notifications that are committed and that the broker does not have yet.", "none",
                        "PushPublishBacklogGrows", "{{lane}}", width=6),
            alert_panel("Oldest fan-out", "For how long the oldest unfinished fan-out has been due.", "s", "PushFanOutSlow", "due since",
                        "PushFanOutStands", width=6),
            alert_panel("Webhooks", "For how long the message to a webhook that is due longest has waited.", "s", "PushWebhooksLate",
                        "late by", width=6),
            alert_panel("State changes to publish", "Rows of the event logs that no process has read, the lowest value of 15 minutes.",
                        "none", "PushEventsWait", "{{log}} → {{sink}}", width=6),
        ]),
        ("Requests to the token services", [
            Panel("Requests", "Answers of the token services by status.", "reqps",
                  [(rate("push_token_service_http_requests_total", "status"), "{{status}}")], ("PushDatabaseUnavailable",),
                  is_stacked=True, has_threshold=False, width=6),
            Panel("Time to answer", "The median and the p99 of all requests.", "s",
                  quantiles("push_token_service_http_request_duration_seconds"), width=6),
            alert_panel("Refused for lack of room", "Requests that were answered 503 overloaded, by reason.", "none", "PushRequestsShed",
                        "{{reason}}", width=6),
            alert_panel("Failed", "Requests and items that failed through the service's own fault within ten minutes.", "none",
                        "PushInternalErrors", "failed", width=6),
        ]),
        ("Lost, given up, refused", [
            alert_panel("Dead letters", "Messages in the queue of dead letters. They wait for an operator.", "none", "PushDeadLettersWait",
                        "{{queue}}", "PushDeliveriesGivenUp", "PushDeadLettersLost"),
            Panel("Tokens retired", "Tokens that the platform retired because APNs said so, by reason.", "ops",
                  [(rate("push_token_service_tokens_retired_total", "reason"), "{{reason}}")], ("PushTokensRejected",),
                  has_threshold=False),
            alert_panel("Requests of keys above their limit", "Answers 429 of the token services within ten minutes.", "none",
                        "PushKeyRateLimited", "429"),
            alert_panel("Outcomes that were not stored", "Outcomes of single deliveries that PostgreSQL refused within an hour.", "none",
                        "PushOutcomeNotStored", "outcomes", width=6),
            alert_panel("Unreadable messages", "Messages with outcomes that no token service could read, within an hour.", "none",
                        "PushOutcomeUndecodable", "messages", "PushMessageTooLarge", width=6),
            alert_panel("Webhook messages given up", "Messages given up after their last attempt, within an hour.", "none",
                        "PushWebhookMessagesGivenUp", "messages", "PushWebhookDisabled", width=6),
            alert_panel("Stale installations removed", "Installations that the housekeeping deregistered within three hours.", "none",
                        "PushStaleInstallationsRemoved", "installations", width=6),
        ]),
        ("Live Activities and channels", [
            Panel("Channels", "Broadcast channels of all apps by state.", "none",
                  [("max by (state) (sum by (instance, state) (push_token_service_channels))", "{{state}}")], is_stacked=True,
                  width=6),
            alert_panel("Channel that waits longest", "For how long a channel has been creating or deleting.", "s", "PushChannelsPending",
                        "waiting", width=6),
            alert_panel("Lost channels", "Channels that were open, and that Apple does not have any more.", "none", "PushChannelsLost",
                        "{{environment}}", width=6),
            alert_panel("Largest share of Apple's limit", "The largest share of Apple's 10,000 channels that one app has.", "percentunit",
                        "PushChannelsNearLimit", "share", width=6),
            Panel("Commands for channels", "Requests of the token services to create, read and delete channels, by what became of them.",
                  "ops", [(rate("push_dispatcher_channel_commands_total", "operation, result"), "{{operation}}: {{result}}")],
                  ("PushChannelsPending",), width=6, has_threshold=False),
            Panel("Pools for broadcasts and channels", "Number of pools by API and state. A dispatcher makes one when it first needs it.",
                  "none", [('sum by (api, state) (push_dispatcher_apns_pool_state{api!="device"})', "{{api}}: {{state}}")],
                  ("PushCredentialRefused", "PushAPNsUnavailable"), width=6, has_threshold=False),
            Panel("Answers to broadcasts and channels", "Answers of APNs by API, status and reason.", "reqps",
                  [(rate("push_dispatcher_apns_answers_total", "api, answer", '{api!="device"}'), "{{api}}: {{answer}}")], width=6),
            Panel("Reports of Live Activities", "Requests in which apps report an update token (PUT), or that a Live Activity is over "
                  "(DELETE).", "reqps",
                  [(rate("push_token_service_http_requests_total", "method, status", '{route=~".+/installations/.+/activities/.+"}'),
                    "{{method}} {{status}}")], width=6),
            Panel("Replaced states", "Updates and broadcasts that a newer one replaced before they were sent.", "ops",
                  [("sum(rate(push_token_service_updates_superseded_total[$__rate_interval]))", "replaced")], width=6),
        ]),
        ("Processes", [
            Panel("Memory", "Resident memory of each process.", "bytes",
                  [('process_resident_memory_bytes and on (job, instance) push_build_info', "{{job}} {{instance}}")]),
            Panel("Processor", "Processors in use by each process.", "none",
                  [('rate(process_cpu_seconds_total[$__rate_interval]) and on (job, instance) push_build_info', "{{job}} {{instance}}")]),
            Panel("Starts", "How often each process has started within 15 minutes.", "none",
                  [(MEASURED["PushProgramRestarts"] + ' and on (job, instance) push_build_info', "{{job}} {{instance}}")],
                  ("PushProgramRestarts", "PushProgramDown")),
        ]),
    ])

ONE_APP = Dashboard(
    "push-app", "Push: one app", "What became of the deliveries of one app, and what APNs answered for one of its topics.",
    [
        ("app", "App", "label_values(push_dispatcher_outcomes_total, app)"),
        ("topic", "Topic (bundle id)", "label_values(push_dispatcher_apns_answers_total, topic)"),
    ],
    [
        ("Outcomes", [
            Panel("Final outcomes", "Deliveries that ended, by class. The outcome accepted means that APNs took the push.", "ops",
                  [(rate("push_dispatcher_outcomes_total", "class", f'{{{APP},final="true"}}'), "{{class}}")], is_stacked=True),
            Panel("Share that APNs accepted", "Accepted deliveries among those that ended.", "percentunit",
                  [(f'sum(rate(push_dispatcher_outcomes_total{{{APP},final="true",class="accepted"}}[$__rate_interval]))'
                    f' / sum(rate(push_dispatcher_outcomes_total{{{APP},final="true"}}[$__rate_interval]))', "accepted")]),
            Panel("Tokens that are over", "Share of ended deliveries whose token APNs called gone or bad. A sudden rise is a wrong "
                  "environment or a wrong topic.", "percentunit",
                  [(f'sum(rate(push_dispatcher_outcomes_total{{{APP},final="true",class=~"token_gone|token_rejected"}}[$__rate_interval]))'
                    f' / sum(rate(push_dispatcher_outcomes_total{{{APP},final="true"}}[$__rate_interval]))', "gone or rejected")],
                  ("PushTokensRejected",), has_threshold=False),
        ]),
        ("Why not", [
            Panel("Reasons", "Ended deliveries that APNs did not accept, by reason. Words in CamelCase are Apple's.", "ops",
                  [(rate("push_dispatcher_outcomes_total", "class, reason", f'{{{APP},final="true",class!="accepted"}}'),
                    "{{class}}: {{reason}}")], width=12, is_stacked=True),
            Panel("Tries that were not the last", "Deliveries that wait for their next try, by reason.", "ops",
                  [(rate("push_dispatcher_outcomes_total", "class, reason", f'{{{APP},final="false"}}'), "{{class}}: {{reason}}")],
                  width=12),
            alert_panel("No credential", "Deliveries that wait because no credential serves their app. The label other stands for every "
                        "app that no credential names.", "none", "PushCredentialMissing", "{{app}}", width=12),
            alert_panel("Tokens in the wrong environment", "Tokens of all apps that APNs took in another environment than they were "
                        "registered for, within an hour.", "none", "PushEnvironmentsCorrected", "tokens", width=12),
        ]),
        ("What APNs answered for the topic", [
            Panel("Answers", "Answers of APNs by status and reason.", "reqps",
                  [(rate("push_dispatcher_apns_answers_total", "answer", '{topic="$topic"}'), "{{answer}}")], width=12, is_stacked=True),
            Panel("Share of 200", "Answers 200 among all answers for the topic.", "percentunit",
                  [('sum(rate(push_dispatcher_apns_answers_total{topic="$topic",answer="200"}[$__rate_interval]))'
                    ' / sum(rate(push_dispatcher_apns_answers_total{topic="$topic"}[$__rate_interval]))', "200")], width=12),
        ]),
    ])

ONE_LANE = Dashboard(
    "push-lane", "Push: one lane", "The way of a job of one lane: it waits, a dispatcher takes it, APNs answers, the broker confirms.",
    [("lane", "Lane", ("now", "soon", "bulk"))],
    [
        ("Objective", [
            Panel("Answered too late", "Share of the lane's jobs answered after its objective: now 1 s, soon 10 s. The lane bulk has none.",
                  "percentunit",
                  [('push:answers_late:ratio_rate5m' + LANE, "5 minutes"), ('push:answers_late:ratio_rate1h' + LANE, "1 hour")],
                  ("PushAnswersLate",), width=12),
            Panel("Answered too late, longer", "The same over half an hour and six hours, with the lower threshold.", "percentunit",
                  [('push:answers_late:ratio_rate30m' + LANE, "30 minutes"), ('push:answers_late:ratio_rate6h' + LANE, "6 hours")],
                  ("PushAnswersLateForHours",), width=12),
        ]),
        ("Waiting", [
            Panel("Oldest waiting job", "For how long the oldest published job has waited for a dispatcher.", "s",
                  [("max(push_token_service_lane_wait_seconds" + LANE + ")", "oldest")], ("PushJobsWait",)),
            Panel("Time to the first expiry", "Seconds until the first waiting job expires.", "s",
                  [("min(push_token_service_lane_slack_seconds" + LANE + ")", "first expiry")]),
            Panel("Jobs in the broker", "Jobs that wait in the lane's queue, and jobs that dispatchers have and have not settled.", "none",
                  [('max(rabbitmq_queue_messages_ready{queue="push.jobs.$lane"})', "wait"),
                   ('max(rabbitmq_queue_messages_unacked{queue="push.jobs.$lane"})', "taken")],
                  ("PushJobsWait", "PushBulkJobsWait"), has_threshold=False),
            Panel("Dispatchers", "Dispatchers that take jobs of the lane.", "none",
                  [('max(rabbitmq_queue_consumers{queue="push.jobs.$lane"})', "consumers")], ("PushLaneWithoutDispatcher",)),
            Panel("Lane refused by the broker", "1 while RabbitMQ takes no jobs of the lane: its queue is full or gone.", "none",
                  [("max(push_token_service_publish_refused" + LANE + ")", "refused")], ("PushJobsRefused",)),
            Panel("Age when taken", "From the publishing of a job, which is when it is due, to its taking; first tries only.", "s",
                  quantiles("push_dispatcher_queue_age_seconds", LANE)),
        ]),
        ("Taking and sending", [
            Panel("Accepted and taken", "Notifications accepted, and jobs taken. A job has up to 100 deliveries.", "ops",
                  [('sum(rate(push_token_service_notifications_accepted_total{lane="$lane",replay="false"}[$__rate_interval]))',
                    "accepted"),
                   (f"sum(rate(push_dispatcher_jobs_taken_total{LANE}[$__rate_interval]))", "jobs taken")]),
            Panel("Deliveries at work", "Deliveries of jobs that are not settled, in each dispatcher. The line is the limit of bulk.",
                  "none", [("push_dispatcher_deliveries_in_progress" + LANE, "{{instance}}")], ("PushBulkAtItsLimit",)),
            Panel("Requests that wait for a stream", "Requests that wait because all streams of their pool are in use.", "none",
                  [(f"sum by (credential, environment) (push_dispatcher_apns_requests_waiting{LANE})", "{{credential}} {{environment}}")]),
        ]),
        ("Answers and settling", [
            Panel("From publishing to answer", "From the publishing of a job, which is when it is due, to the last answer of its first try.",
                  "s", quantiles("push_dispatcher_job_duration_seconds", LANE)),
            Panel("Answers of APNs, all lanes", "From handing a request to HTTP/2 to its answer.", "s",
                  quantiles("push_dispatcher_apns_answer_duration_seconds")),
            Panel("Settling, all lanes", "From handing results to the broker to its confirmation.", "s",
                  quantiles("push_dispatcher_settlement_lag_seconds")),
            Panel("Put aside, all lanes", "Deliveries put into delayed queues: for a retry, by its delay, or because of a hold.", "ops",
                  [(rate("push_dispatcher_retries_total", "delay"), "retry in {{delay}}"),
                   ("sum(rate(push_dispatcher_deliveries_held_total[$__rate_interval]))", "held")], width=12),
            Panel("Outcomes to apply, all lanes", "Messages with outcomes that wait for the token services.", "none",
                  [(MEASURED["PushOutcomesWait"], "wait")], ("PushOutcomesWait",), width=12),
        ]),
    ])

CONNECTIONS = Dashboard(
    "push-apns", "Push: APNs connections", "The pool of connections of one credential in one environment.",
    [
        ("credential", "Credential", "label_values(push_dispatcher_apns_pool_state, credential)"),
        ("environment", "Environment", ("production", "sandbox")),
    ],
    [
        ("State", [
            Panel("State of the pool", "Number of dispatchers whose pool is in a state. The state paused: APNs refuses the credential. "
                  "The state unavailable: APNs answers with server faults.", "none",
                  [(f"sum by (state) (push_dispatcher_apns_pool_state{POOL})", "{{state}}")],
                  ("PushCredentialRefused", "PushAPNsUnavailable", "PushAPNsPoolClosed"), is_stacked=True, has_threshold=False),
            Panel("Credential proven", "1 once APNs has shown that it knows the credential.", "none",
                  [(f"push_dispatcher_apns_credential_proven{POOL}", "{{instance}} {{api}}")], ("PushCredentialNotProven",), has_threshold=False),
            alert_panel("Files of the credentials", "0 while a dispatcher cannot use the changed files and goes on with the old ones.",
                        "none", "PushCredentialsFileRefused", "{{instance}}"),
            Panel("Certificate ends in", "How long a certificate is still valid. Credentials with a signing key have no end.", "s",
                  [(f"min(push_dispatcher_apns_certificate_ends_in_seconds{POOL})", "ends in")],
                  ("PushCertificateEndsInDays", "PushCertificateEndsSoon")),
            Panel("Age of provider tokens", "The oldest provider token in use. APNs takes no token older than an hour.", "s",
                  [(f"max by (instance) (push_dispatcher_apns_provider_token_age_seconds{POOL})", "{{instance}}")], ("PushClockWrong",),
                  has_threshold=False),
            Panel("Age of the credential", "Since the key's file was written, or the certificate's validity began.", "s",
                  [(f"max(push_dispatcher_apns_credential_age_seconds{POOL})", "age")]),
        ]),
        ("Connections", [
            Panel("Connections", "Connections to APNs in each dispatcher.", "none",
                  [(f"push_dispatcher_apns_connections{POOL}", "{{instance}} {{api}}")]),
            Panel("Opened, lost, failed", "Connections by what became of them.", "ops",
                  [(f"sum(rate(push_dispatcher_apns_connections_opened_total{POOL}[$__rate_interval]))", "opened"),
                   (f"sum(rate(push_dispatcher_apns_connections_lost_total{POOL}[$__rate_interval]))", "lost"),
                   (f"sum(rate(push_dispatcher_apns_connections_failed_total{POOL}[$__rate_interval]))", "failed")],
                  ("PushAPNsConnectionsFail",), has_threshold=False),
            Panel("Failed connections", "Connections that did not come about within five minutes, in each dispatcher.", "none",
                  [(f"sum by (instance) (increase(push_dispatcher_apns_connections_failed_total{POOL}[5m]))", "{{instance}}")],
                  ("PushAPNsConnectionsFail",)),
            Panel("GOAWAYs", "GOAWAYs by APNs' reason, within ten minutes.", "none",
                  [(f"sum by (reason) (increase(push_dispatcher_apns_goaways_total{POOL}[10m]))", "{{reason}}")],
                  ("PushAPNsSendsConnectionsAway",), width=12),
            Panel("Replaced connections", "Connections that take no more requests, by reason.", "ops",
                  [(rate("push_dispatcher_apns_connections_retired_total", "reason", POOL), "{{reason}}")], width=12),
        ]),
        ("Requests", [
            Panel("Requests and answers", "Requests sent, and answers of APNs by status and reason.", "reqps",
                  [(f"sum(rate(push_dispatcher_apns_requests_total{POOL}[$__rate_interval]))", "requests"),
                   (rate("push_dispatcher_apns_answers_total", "answer", POOL), "{{answer}}")], width=12),
            Panel("Time to answer", "From handing a request to HTTP/2 to its answer.", "s",
                  quantiles("push_dispatcher_apns_answer_duration_seconds", POOL, (0.5, 0.9, 0.99)), width=12),
            Panel("Streams", "Requests without an answer yet, and how many APNs allows at once.", "none",
                  [(f"sum(push_dispatcher_apns_open_streams{POOL})", "open"),
                   (f"sum(push_dispatcher_apns_stream_limit{POOL})", "allowed")]),
            Panel("Requests that wait for a stream", "Requests that wait because all streams are in use, by lane.", "none",
                  [(f"sum by (lane) (push_dispatcher_apns_requests_waiting{POOL})", "{{lane}}")]),
            Panel("Requests without an answer", "Requests that APNs did not answer or did not process, and those stopped before they left.",
                  "ops",
                  [(f"sum(rate(push_dispatcher_apns_{name}_total{POOL}[$__rate_interval]))", legend) for name, legend in (
                      ("timeouts", "no answer for 15 s"), ("unanswered", "connection ended"), ("refused_streams", "refused unprocessed"),
                      ("handed_over", "handed to another connection"), ("stopped", "stopped"))]),
        ]),
    ])

SERVERS = Dashboard(
    "push-servers", "Push: broker and database", "RabbitMQ and PostgreSQL as the platform meets them.", [],
    [
        ("RabbitMQ", [
            Panel("Messages in queues", "Messages that wait, by queue.", "none",
                  [('max by (queue) (rabbitmq_queue_messages_ready{queue=~"push[.].+"})', "{{queue}}")],
                  ("PushDeadLettersWait", "PushRefusedOutcomesWait"), width=12, has_threshold=False),
            Panel("Messages taken and not settled", "Messages that consumers have and have not settled, by queue.", "none",
                  [('max by (queue) (rabbitmq_queue_messages_unacked{queue=~"push[.].+"})', "{{queue}}")], width=12),
            Panel("Memory", "Memory of each node, and the limit above which it blocks publishers.", "bytes",
                  [("rabbitmq_process_resident_memory_bytes", "{{instance}}"),
                   ("rabbitmq_resident_memory_limit_bytes", "limit {{instance}}")],
                  ("PushBrokerBlocked",), has_threshold=False),
            Panel("Free disk", "Free disk of each node, and the limit below which it blocks publishers.", "bytes",
                  [("rabbitmq_disk_space_available_bytes", "{{instance}}"),
                   ("rabbitmq_disk_space_available_limit_bytes", "limit {{instance}}")],
                  ("PushBrokerBlocked",), has_threshold=False),
            alert_panel("Refused outcomes that wait", "Outcomes that RabbitMQ refused and that wait to be published again.", "none",
                        "PushRefusedOutcomesWait", "{{queue}}"),
        ]),
        ("Connections to RabbitMQ", [
            alert_panel("Connected", "1 while a client has its connection to RabbitMQ.", "none", "PushBrokerDisconnected",
                        "{{instance}} {{client}}"),
            alert_panel("Blocked", "1 while RabbitMQ has a resource alarm and takes no messages.", "none", "PushBrokerBlocked",
                        "{{instance}} {{client}}"),
            Panel("Failures", "Connections that were lost or not made, made anew for a replaced queue, and cut by the watchdog.", "ops",
                  [(rate("push_broker_connection_failures_total", "client"), "{{client}}: failed"),
                   (rate("push_broker_connection_renewals_total", "client"), "{{client}}: made anew")],
                  ("PushBrokerDisconnected", "PushControlStreamReplaced", "PushQueueReplaced", "PushBrokerCallsHang"),
                  has_threshold=False),
            Panel("Published", "Messages by RabbitMQ's answer.", "ops",
                  [(rate("push_broker_published_total", "outcome"), "{{outcome}}")], ("PushMessagesNotConfirmed", "PushMessageUnroutable"),
                  is_stacked=True, has_threshold=False),
            alert_panel("Not confirmed", "Messages that RabbitMQ refused within five minutes.", "none", "PushMessagesNotConfirmed",
                        "{{client}} {{outcome}}"),
            alert_panel("Silent queues", "Destinations whose queues have owed a confirmation for too long.", "none",
                        "PushQueueSilent", "{{client}}"),
            Panel("Unconfirmed and repeated", "Messages without a confirmation yet, and messages published again after a lost connection.",
                  "none", [("sum by (client) (push_broker_publish_pending)", "{{client}}: unconfirmed"),
                           ("sum by (client) (increase(push_broker_republished_total[$__rate_interval]))", "{{client}}: again")]),
            Panel("Received", "Messages received by client.", "ops", [(rate("push_broker_received_total", "client"), "{{client}}")]),
            alert_panel("Control stream read to its end", "0 while a dispatcher has not read all fences. It sends nothing then.", "none",
                        "PushControlStreamNotRead", "{{instance}}"),
            alert_panel("Doubts about the control stream", "How often a dispatcher stopped sending within 15 minutes because the stream "
                        "might be late.", "none", "PushControlStreamLate", "{{instance}}", "PushControlStreamElsewhere"),
        ]),
        ("Outbox and outcomes", [
            alert_panel("Publish backlog", "Notifications that are committed and that RabbitMQ does not have yet.", "none",
                        "PushPublishBacklogGrows", "{{lane}}"),
            alert_panel("Lanes refused", "1 while RabbitMQ takes no jobs of a lane.", "none", "PushJobsRefused", "{{lane}}"),
            alert_panel("Outcomes to apply", "Messages with outcomes that wait for the token services, the lowest value of ten minutes.",
                        "none", "PushOutcomesWait", "{{queue}}", "PushOutcomesRefused"),
        ]),
        ("PostgreSQL", [
            Panel("Connections", "The pools of all token services.", "none",
                  [("sum by (pool, state) (push_token_service_postgres_connections)", "{{pool}} {{state}}")], ("PushDatabaseUnavailable",),
                  is_stacked=True, has_threshold=False),
            alert_panel("Share of 503", "Requests answered 503 for another reason than a lack of room.", "percentunit",
                        "PushDatabaseUnavailable", "{{instance}}"),
            alert_panel("Changes that wait", "Registrations and changes that wait for a transaction.", "none", "PushRegistrationsWait",
                        "{{instance}}"),
            Panel("Changes per commit", "How many registrations and changes shared a transaction.", "none",
                  quantiles("push_token_service_changes_per_commit")),
            alert_panel("Commits run once more", "Share of the commits of registrations that PostgreSQL ended for a deadlock, or that an "
                        "answer of APNs overtook.", "percentunit", "PushRegistrationsRepeated", "share"),
            alert_panel("Partitions ahead", "For how long rows still have a partition that was made for them.", "s",
                        "PushPartitionsMissing", "{{table}}", "PushRowsWithoutPartition"),
            alert_panel("Retention overdue", "For how long the oldest period has been past its retention.", "s", "PushRetentionOverdue",
                        "{{table}}", width=12),
            alert_panel("Steps of the relay that fail", "How often each step failed within two minutes, at the least, in the last five.", "none", "PushRelayStepFails",
                        "{{instance}} {{step}}", width=12),
            alert_panel("Jobs that cannot be read", "Put off within two hours, each time.", "none", "PushJobsUnreadable", "jobs", width=12),
            Panel("Rounds of housekeeping", "Rounds within two hours by result.", "none",
                  [("sum by (result) (increase(push_token_service_housekeeping_rounds_total[2h]))", "{{result}}")],
                  ("PushHousekeepingFails",), width=12, has_threshold=False),
        ]),
    ])

DASHBOARDS = [OVERVIEW, ONE_APP, ONE_LANE, CONNECTIONS, SERVERS]
