/// Every log metadata key of this service. Units are in the name.
package enum LogKey {
    package static let app = "app"
    package static let appID = "app.id"
    package static let appIDs = "app.ids"
    package static let count = "count"
    package static let deliveries = "erased.deliveries"
    package static let delivery = "delivery.id"
    package static let error = "error"
    package static let eventLog = "event.log"
    package static let eventSink = "event.sink"
    package static let flagged = "stale.flagged"
    package static let hold = "hold.id"
    package static let history = "erased.history"
    package static let installations = "erased.installations"
    package static let keyID = "key.id"
    package static let lane = "lane"
    package static let messageID = "message.id"
    package static let notification = "notification.id"
    package static let notifications = "erased.notifications"
    package static let outcome = "outcome.class"
    package static let port = "http.port"
    package static let reason = "reason"
    package static let removed = "stale.removed"
    package static let route = "http.route"
    package static let status = "apns.status"
    package static let tokens = "erased.tokens"
    package static let version = "version"
    package static let versions = "schema.versions"
    package static let webhook = "webhook.id"
}

/// Every metric of this service. The README's table says what they mean and is compared with this list.
package enum MetricName {
    package static let requests = "push_token_service_http_requests_total"
    package static let requestTime = "push_token_service_http_request_duration_seconds"
    package static let requestsInProgress = "push_token_service_http_requests_in_progress"
    package static let streamsInProgress = "push_token_service_http_streams_in_progress"
    package static let requestsRateLimited = "push_token_service_http_requests_rate_limited_total"
    package static let requestsShed = "push_token_service_http_requests_shed_total"
    package static let registrations = "push_token_service_registrations_total"
    package static let signOuts = "push_token_service_sign_outs_total"
    package static let accepted = "push_token_service_notifications_accepted_total"
    package static let published = "push_token_service_notifications_published_total"
    package static let backlog = "push_token_service_publish_backlog"
    package static let publishRefused = "push_token_service_publish_refused"
    package static let walksLive = "push_token_service_walks_live"
    package static let walkRead = "push_token_service_walk_installations_total"
    package static let walkChunks = "push_token_service_walk_chunks_total"
    package static let walkOldest = "push_token_service_walk_oldest_age_seconds"
    package static let holds = "push_token_service_holds"
    package static let putAside = "push_token_service_publish_held_total"
    package static let outcomes = "push_token_service_outcomes_total"
    package static let repeatedOutcomes = "push_token_service_outcomes_repeated_total"
    package static let undecodableOutcomes = "push_token_service_outcomes_undecodable_total"
    package static let refusedOutcomes = "push_token_service_outcomes_refused_total"
    package static let completed = "push_token_service_notifications_completed_total"
    package static let retired = "push_token_service_tokens_retired_total"
    package static let braked = "push_token_service_brake_engaged_total"
    package static let brakesEngaged = "push_token_service_brakes_engaged"
    package static let corrected = "push_token_service_environments_corrected_total"
    package static let quarantined = "push_token_service_tokens_quarantined_total"
    package static let restored = "push_token_service_tokens_restored_total"
    package static let throttled = "push_token_service_installations_throttled_total"
    package static let erasures = "push_token_service_users_erased_total"
    package static let staleFlagged = "push_token_service_stale_flagged_total"
    package static let staleRemoved = "push_token_service_stale_removed_total"
    package static let housekeepingRounds = "push_token_service_housekeeping_rounds_total"
    package static let retentionRemoved = "push_token_service_retention_removed_total"
    package static let deadLettersReplayed = "push_token_service_dead_letters_replayed_total"
    package static let deadLettersDropped = "push_token_service_dead_letters_dropped_total"
    package static let connections = "push_token_service_postgres_connections"
    package static let changesWaiting = "push_token_service_changes_waiting"
    package static let changesPerCommit = "push_token_service_changes_per_commit"
    package static let commitsRepeated = "push_token_service_commits_repeated_total"
    package static let eventsPublished = "push_token_service_events_published_total"
    package static let eventsWaiting = "push_token_service_events_waiting"
    package static let webhookAttempts = "push_token_service_webhook_attempts_total"
    package static let webhookMessagesFailed = "push_token_service_webhook_messages_failed_total"
    package static let webhooksDisabled = "push_token_service_webhooks_disabled_total"
    package static let webhookLag = "push_token_service_webhook_lag_seconds"

    package static let all = [
        changesWaiting,
        changesPerCommit,
        commitsRepeated,
        requests,
        requestTime,
        requestsInProgress,
        streamsInProgress,
        requestsRateLimited,
        requestsShed,
        registrations,
        signOuts,
        accepted,
        published,
        backlog,
        publishRefused,
        walksLive,
        walkRead,
        walkChunks,
        walkOldest,
        holds,
        putAside,
        outcomes,
        repeatedOutcomes,
        undecodableOutcomes,
        refusedOutcomes,
        completed,
        retired,
        braked,
        throttled,
        connections,
        brakesEngaged,
        quarantined,
        restored,
        corrected,
        erasures,
        staleFlagged,
        staleRemoved,
        housekeepingRounds,
        retentionRemoved,
        deadLettersReplayed,
        deadLettersDropped,
        eventsPublished,
        eventsWaiting,
        webhookAttempts,
        webhookMessagesFailed,
        webhooksDisabled,
        webhookLag,
    ]
}
