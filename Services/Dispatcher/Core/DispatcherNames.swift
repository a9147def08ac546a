/// Every log metadata key of this service. Units are in the name.
enum LogKey {
    static let api = "api"
    static let app = "app"
    static let command = "command.id"
    static let count = "count"
    static let address = "server.address"
    static let credential = "credential"
    static let days = "days"
    static let deliveries = "deliveries"
    static let detail = "detail"
    static let environment = "environment"
    static let hold = "hold.id"
    static let holds = "holds"
    static let instance = "instance"
    static let lane = "lane"
    static let messageID = "message.id"
    static let new = "new"
    static let notification = "notification.id"
    static let operation = "operation"
    static let outage = "outage_ms"
    static let port = "http.port"
    static let reason = "reason"
    static let result = "result"
    static let state = "state"
    static let version = "version"
}

/// Every metric of this service. ``DispatcherReference/metrics`` explains them.
enum MetricName {
    static let jobs = "push_dispatcher_jobs_taken_total"
    static let deliveries = "push_dispatcher_deliveries_taken_total"
    static let outcomes = "push_dispatcher_outcomes_total"
    static let retries = "push_dispatcher_retries_total"
    static let deadLettered = "push_dispatcher_dead_lettered_total"
    static let lettersLost = "push_dispatcher_dead_letters_lost_total"
    static let acknowledged = "push_dispatcher_jobs_acknowledged_total"
    static let givenBack = "push_dispatcher_jobs_given_back_total"
    static let duration = "push_dispatcher_job_duration_seconds"
    static let inProgress = "push_dispatcher_jobs_in_progress"
    static let atWork = "push_dispatcher_deliveries_in_progress"
    static let unconfirmed = "push_dispatcher_publications_unconfirmed"
    static let controlCurrent = "push_dispatcher_control_current"
    static let controlElsewhere = "push_dispatcher_control_elsewhere"
    static let controlDoubts = "push_dispatcher_control_doubts_total"
    static let controlEntries = "push_dispatcher_control_entries"
    static let outcomesRefused = "push_dispatcher_outcomes_refused"
    static let holds = "push_dispatcher_holds"
    static let held = "push_dispatcher_deliveries_held_total"
    static let poolState = "push_dispatcher_apns_pool_state"
    static let connections = "push_dispatcher_apns_connections"
    static let openStreams = "push_dispatcher_apns_open_streams"
    static let streamLimit = "push_dispatcher_apns_stream_limit"
    static let requestsWaiting = "push_dispatcher_apns_requests_waiting"
    static let requests = "push_dispatcher_apns_requests_total"
    static let answers = "push_dispatcher_apns_answers_total"
    static let answerTime = "push_dispatcher_apns_answer_duration_seconds"
    static let unanswered = "push_dispatcher_apns_unanswered_total"
    static let connectionsFailed = "push_dispatcher_apns_connections_failed_total"
    static let queueAge = "push_dispatcher_queue_age_seconds"
    static let settlement = "push_dispatcher_settlement_lag_seconds"
    static let controlApplied = "push_dispatcher_control_applied_total"
    static let reloads = "push_dispatcher_credentials_reloads_total"
    static let credentialsCurrent = "push_dispatcher_credentials_current"
    static let proven = "push_dispatcher_apns_credential_proven"
    static let tokenAge = "push_dispatcher_apns_provider_token_age_seconds"
    static let credentialAge = "push_dispatcher_apns_credential_age_seconds"
    static let certificateEndsIn = "push_dispatcher_apns_certificate_ends_in_seconds"
    static let connectionsOpened = "push_dispatcher_apns_connections_opened_total"
    static let connectionsLost = "push_dispatcher_apns_connections_lost_total"
    static let connectionsRetired = "push_dispatcher_apns_connections_retired_total"
    static let goAways = "push_dispatcher_apns_goaways_total"
    static let timedOut = "push_dispatcher_apns_timeouts_total"
    static let stopped = "push_dispatcher_apns_stopped_total"
    static let handedOver = "push_dispatcher_apns_handed_over_total"
    static let refusedStreams = "push_dispatcher_apns_refused_streams_total"
    static let channelCommands = "push_dispatcher_channel_commands_total"

    static let all = [
        jobs, deliveries, outcomes, retries, deadLettered, lettersLost, acknowledged, givenBack, duration, inProgress, atWork, unconfirmed,
        controlCurrent, controlEntries, poolState, connections, openStreams, streamLimit, requestsWaiting, requests, answers, answerTime,
        unanswered,
        controlDoubts, controlElsewhere,
        connectionsFailed, queueAge, settlement, controlApplied, reloads, credentialsCurrent, proven, tokenAge, credentialAge,
        certificateEndsIn, connectionsOpened, connectionsLost, connectionsRetired, goAways, timedOut, stopped, handedOver, holds,
        held, refusedStreams, outcomesRefused, channelCommands,
    ]
}
