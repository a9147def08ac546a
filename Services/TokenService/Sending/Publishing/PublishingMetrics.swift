import Metrics
package import Observability
import PushModel

/// Counts published notifications and the relay's failures, and shows what waits.
package struct PublishingMetrics: Sendable {
    private let notifications: Counter
    private let backlog: GaugeMetric
    private let failedSteps: [Relay.Step: Counter]
    private let unreadableJobs: Counter
    private let refused: GaugeMetric
    private let wait: GaugeMetric
    private let slack: GaugeMetric

    package init(_ registry: PrometheusMetrics) {
        notifications = registry.counter(
            "push_token_service_notifications_published_total", "Notifications whose jobs the broker has confirmed.")
        backlog = registry.gauge(
            "push_token_service_publish_backlog", ["lane"], "Notifications that are committed and not published yet; alert when it grows.")
        failedSteps = registry.counters(
            "push_token_service_relay_steps_failed_total", by: "step", Relay.Step.self,
            "Steps of the relay's rounds that failed. A step that fails rests for `RELAY_INTERVAL_MS`; alert if one goes on failing.")
        unreadableJobs = registry.counter(
            "push_token_service_jobs_unreadable_total",
            "Jobs that cannot be read as they are stored, each time that the relay put them off; alert on any.")
        refused = registry.gauge(
            "push_token_service_publish_refused", ["lane"],
            "1 while the broker takes none of the lane's jobs: its queue is full or gone; alert on any.")
        wait = registry.gauge(
            "push_token_service_lane_wait_seconds", ["lane"],
            "How long the oldest job has waited that is published and that no dispatcher has worked on; 0 if none waits. As of the last "
                + "look, every 2 s while PostgreSQL answers. Each process shows the jobs that it published, and after its start those of "
                + "the last day: use the largest.")
        slack = registry.gauge(
            "push_token_service_lane_slack_seconds", ["lane"],
            "Time until the first of these jobs expires; at most 86400, which also stands for no waiting job. Use the smallest.")
    }

    func observe(_ backlog: PublishBacklog, _ window: RelayWindow, _ waits: LaneWaits) {
        for lane in Lane.allCases {
            self.backlog.observe(lane.rawValue) { Double(backlog.count(of: lane)) }
            refused.observe(lane.rawValue) { window.isRefused(lane) ? 1 : 0 }
            wait.observe(lane.rawValue) { waits.wait(of: lane) }
            slack.observe(lane.rawValue) { waits.slack(of: lane) }
        }
    }

    func published(_ number: Int) { notifications.increment(by: number) }
    func failed(_ step: Relay.Step) { failedSteps[step]?.increment() }
    func unreadable(jobs: Int) { unreadableJobs.increment(by: jobs) }
}
