import APNs
import Observability
import PushModel
import SystemIO

/// The metrics of pools and credentials, computed at each scrape. Their series come and go with the credentials' files; counters stay.
extension DispatcherMetrics {
    private typealias Sample = PrometheusMetrics.Sample
    private typealias View = PoolTable.View
    typealias Views = @Sendable () -> [PoolTable.View]

    func observe(_ pools: @escaping Views, _ standing: @escaping @Sendable () -> CredentialKeeper.Standing) {
        observeStates(pools)
        observeConnections(pools)
        observeTraffic(pools)
        observeCredentials(pools, standing)
    }

    private func observeStates(_ pools: @escaping Views) {
        each(
            pools, "push_dispatcher_apns_pool_state", .gauge, ["state"],
            "1 for the state in which a pool is (`api`: `device`, `broadcast` or `channels`, made when it is first needed): "
                + "`connecting`, `ready`, `idle`, `paused` (APNs refuses the credential), `unavailable` (the breaker is open), `closed`."
        ) { view in
            guard let state = view.state else { return [] }
            return ["connecting", "ready", "idle", "paused", "unavailable", "closed"].map {
                Sample([("state", $0)], state.label == $0 ? 1 : 0)
            }
        }
        each(
            pools, "push_dispatcher_apns_credential_proven", .gauge, [],
            "1 once APNs has shown that it knows the credential."
        ) { view in view.state == nil ? [] : [Sample([], view.isProven ? 1 : 0)] }
        each(pools, "push_dispatcher_apns_requests_waiting", .gauge, ["lane"], "Requests that wait for a free stream.") { view in
            view.state == nil ? [] : Lane.allCases.map { Sample([("lane", $0.rawValue)], Double(view.queued[$0] ?? 0)) }
        }
    }

    private func observeConnections(_ pools: @escaping Views) {
        gauge(pools, "push_dispatcher_apns_connections", "Connections to APNs.") { Double($0.connections.count) }
        gauge(
            pools, "push_dispatcher_apns_open_streams",
            "Requests without an answer yet."
        ) { view in Double(view.connections.reduce(0) { $0 + $1.openStreams }) }
        gauge(
            pools, "push_dispatcher_apns_stream_limit",
            "Requests that APNs allows at once."
        ) { view in Double(view.connections.reduce(0) { $0 + $1.streamLimit }) }
        gauge(pools, "push_dispatcher_apns_provider_token_age_seconds", "Age of the oldest provider token in use.") { view in
            view.connections.compactMap(\.tokenMintedAt).min().map { (ContinuousClock.now - $0) / .seconds(1) }
        }
        counter(pools, "push_dispatcher_apns_connections_opened_total", "Connections that came about.") { $0.connectionsOpened }
        counter(pools, "push_dispatcher_apns_connections_failed_total", "Connections that did not come about.") { $0.connectionsFailed }
        counter(
            pools, "push_dispatcher_apns_connections_lost_total",
            "Connections that ended unasked for, or in silence."
        ) { $0.connectionsLost }
        counters(
            pools, "push_dispatcher_apns_connections_retired_total", by: "reason",
            "Connections that took no more requests."
        ) { $0.retirements }
        counters(pools, "push_dispatcher_apns_goaways_total", by: "reason", "GOAWAYs, by APNs' reason, `none` or `other`.") { $0.goAways }
    }

    private func observeTraffic(_ pools: @escaping Views) {
        counter(pools, "push_dispatcher_apns_requests_total", "Requests sent.") { $0.submitted }
        counter(pools, "push_dispatcher_apns_unanswered_total", "Requests that left and got no answer.") { $0.unknown }
        counter(pools, "push_dispatcher_apns_timeouts_total", "Requests without an answer for 15 s.") { $0.timedOut }
        counter(
            pools, "push_dispatcher_apns_stopped_total",
            "Requests that a fence, a cancel or their expiry stopped at the last moment."
        ) { $0.stopped }
        counter(
            pools, "push_dispatcher_apns_handed_over_total",
            "Requests that were certainly not processed, and handed to another connection."
        ) { $0.handedOver }
        counter(
            pools, "push_dispatcher_apns_refused_streams_total",
            "Requests that APNs refused unprocessed: REFUSED_STREAM, or above a GOAWAY's last stream."
        ) { $0.refused }
        each(
            pools, "push_dispatcher_apns_answers_total", .counter, ["topic", "answer"],
            "Answers, by status and reason; of a pool's topics beyond the first hundred `other`."
        ) { view in
            view.totals.answers.sorted { ($0.key.topic, $0.key.answer) < ($1.key.topic, $1.key.answer) }.map {
                Sample([("topic", $0.key.topic), ("answer", $0.key.answer)], Double($0.value))
            }
        }
        let bounds = APNsPoolSnapshot.latencyBounds.map { Double($0) / 1000 }
        let name = "push_dispatcher_apns_answer_duration_seconds"
        registry.describe([DocumentedMetric(name, .histogram, Self.labels, "From handing a request to HTTP/2 to its answer.")])
        registry.observeHistograms(name) {
            pools().map { view in
                PrometheusMetrics.HistogramSample(
                    Self.dimensions(view), bounds: bounds, counts: view.totals.latency,
                    sum: Double(view.totals.latencySumMilliseconds) / 1000)
            }
        }
    }

    private func observeCredentials(_ pools: @escaping Views, _ standing: @escaping @Sendable () -> CredentialKeeper.Standing) {
        ofCredential(
            pools, "push_dispatcher_apns_credential_age_seconds",
            "Since a key's file was written, or a certificate's validity began."
        ) { view in
            guard let validity = view.plan?.entry.validity else { return nil }
            let now = WallClock.milliseconds() / 1000
            return switch validity {
            case .key(let writtenAt): writtenAt.map { Double(now - $0) }
            case .certificate(let notBefore, _): Double(now - notBefore)
            }
        }
        ofCredential(
            pools, "push_dispatcher_apns_certificate_ends_in_seconds",
            "How long a certificate is still valid; negative after its end."
        ) { view in
            guard case .certificate(_, let notAfter)? = view.plan?.entry.validity else { return nil }
            return Double(notAfter - WallClock.milliseconds() / 1000)
        }
        registry.gauge("push_dispatcher_credentials_current", "0 while what is in the credentials' files cannot be used.").observe {
            if case .refused = standing() { 0 } else { 1 }
        }
    }

    // MARK: How

    private static func dimensions(_ view: View) -> [(String, String)] {
        credentialDimensions(view) + [("api", view.place.service.rawValue)]
    }

    private static func credentialDimensions(_ view: View) -> [(String, String)] {
        [("credential", view.place.credential), ("environment", view.place.environment.rawValue)]
    }

    private static let labels = ["credential", "environment", "api"]

    private func each(
        _ pools: @escaping Views, _ name: String, _ kind: DocumentedMetric.Kind, _ labels: [String], _ help: String,
        _ read: @escaping @Sendable (View) -> [Sample]
    ) {
        registry.describe([DocumentedMetric(name, kind, Self.labels + labels, help)])
        registry.observeAll(name, isCounter: kind == .counter) {
            pools().flatMap { view in read(view).map { Sample(Self.dimensions(view) + $0.dimensions, $0.value) } }
        }
    }

    /// Absent where there is no value.
    private func gauge(_ pools: @escaping Views, _ name: String, _ help: String, _ read: @escaping @Sendable (View) -> Double?) {
        each(pools, name, .gauge, [], help) { view in read(view).map { [Sample([], $0)] } ?? [] }
    }

    /// Once for all pools of the credential.
    private func ofCredential(_ pools: @escaping Views, _ name: String, _ help: String, _ read: @escaping @Sendable (View) -> Double?) {
        registry.describe([DocumentedMetric(name, .gauge, ["credential", "environment"], help)])
        registry.observeAll(name) {
            pools().filter { $0.place.service == .device }.compactMap { view in
                read(view).map { Sample(Self.credentialDimensions(view), $0) }
            }
        }
    }

    private func counter(
        _ pools: @escaping Views, _ name: String, _ help: String, _ read: @escaping @Sendable (APNsPoolSnapshot.Totals) -> Int
    ) {
        each(pools, name, .counter, [], help) { [Sample([], Double(read($0.totals)))] }
    }

    /// One series for each label that has occurred; the pools keep them a closed set.
    private func counters(
        _ pools: @escaping Views, _ name: String, by label: String, _ help: String,
        _ read: @escaping @Sendable (APNsPoolSnapshot.Totals) -> [String: Int]
    ) {
        each(pools, name, .counter, [label], help) { view in
            read(view.totals).sorted { $0.key < $1.key }.map { Sample([(label, $0.key)], Double($0.value)) }
        }
    }
}
