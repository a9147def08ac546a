import Metrics
package import Observability

/// Counts registrations, sign-outs and restored tokens.
package struct RegistryMetrics: Sendable {
    private let created: Counter
    private let updated: Counter
    private let signOuts: Counter
    private let restoredTokens: Counter
    package let changesWaiting: GaugeMetric
    private let changesPerCommit: Recorder
    private let commitsRepeated: [InstallationRegistration.RepeatReason: Counter]

    package init(_ registry: PrometheusMetrics) {
        let registrations = registry.counters(
            "push_token_service_registrations_total", ["result"], "Registrations. Result: created, updated.")
        created = registrations["created"]
        updated = registrations["updated"]
        signOuts = registry.counter("push_token_service_sign_outs_total", "Installations signed out by request.")
        restoredTokens = registry.counter("push_token_service_tokens_restored_total", "Tokens that came back out of quarantine.")
        changesWaiting = registry.gauge(
            "push_token_service_changes_waiting",
            "Registrations and changes that wait for a transaction; at 10,000 more are refused (503); alert when it stays above "
                + "1,000.")
        changesPerCommit = registry.recorder(
            "push_token_service_changes_per_commit", [1, 2, 4, 8, 16, 32, 64, 128, 256], "How many of them shared a transaction.")
        commitsRepeated = registry.counters(
            "push_token_service_commits_repeated_total", by: "reason", InstallationRegistration.RepeatReason.self,
            "Transactions of them that were run once more: ended by PostgreSQL to resolve a deadlock, or overtaken by an answer of APNs about "
                + "a token. Reason: conflict, answer.")
    }

    func registered(isNew: Bool) { (isNew ? created : updated).increment() }
    package func registered(created: Int, updated: Int) {
        self.created.increment(by: created)
        self.updated.increment(by: updated)
    }
    func signedOut(_ number: Int) { signOuts.increment(by: number) }
    func restored(_ number: Int) { restoredTokens.increment(by: number) }
    func commits(_ changes: Int) { changesPerCommit.record(changes) }
    func repeated(_ reason: InstallationRegistration.RepeatReason, _ number: Int) { commitsRepeated[reason]?.increment(by: number) }
}
