/// Every log metadata key of this service. Units are in the name.
enum LogKey {
    static let app = "app"
    static let count = "count"
    static let credential = "credential"
    static let deliveries = "deliveries"
    static let detail = "detail"
    static let environment = "environment"
    static let event = "event"
    static let instance = "instance"
    static let messageID = "message.id"
    static let notification = "notification.id"
    static let port = "http.port"
    static let reason = "reason"
    static let version = "version"
}

/// Every metric of this service. The README's table says what they mean and is compared with this list.
enum MetricName {
    static let jobs = "push_dispatcher_jobs_taken_total"
    static let deliveries = "push_dispatcher_deliveries_taken_total"
    static let outcomes = "push_dispatcher_outcomes_total"
    static let retries = "push_dispatcher_retries_total"
    static let deadLettered = "push_dispatcher_dead_lettered_total"
    static let acknowledged = "push_dispatcher_jobs_acknowledged_total"
    static let givenBack = "push_dispatcher_jobs_given_back_total"
    static let duration = "push_dispatcher_job_duration_seconds"
    static let inProgress = "push_dispatcher_jobs_in_progress"
    static let unconfirmed = "push_dispatcher_publications_unconfirmed"
    static let controlCurrent = "push_dispatcher_control_current"
    static let controlEntries = "push_dispatcher_control_entries"
    static let poolState = "push_dispatcher_apns_pool_state"
    static let connections = "push_dispatcher_apns_connections"
    static let openStreams = "push_dispatcher_apns_open_streams"
    static let streamLimit = "push_dispatcher_apns_stream_limit"
    static let parked = "push_dispatcher_apns_requests_waiting"
    static let requests = "push_dispatcher_apns_requests_total"
    static let answers = "push_dispatcher_apns_answers_total"
    static let answerTime = "push_dispatcher_apns_answers_within_total"
    static let unanswered = "push_dispatcher_apns_unanswered_total"
    static let connectionsFailed = "push_dispatcher_apns_connections_failed_total"

    static let all = [
        jobs, deliveries, outcomes, retries, deadLettered, acknowledged, givenBack, duration, inProgress, unconfirmed, controlCurrent,
        controlEntries, poolState, connections, openStreams, streamLimit, parked, requests, answers, answerTime, unanswered,
        connectionsFailed,
    ]
}
