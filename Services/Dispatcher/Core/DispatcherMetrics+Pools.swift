import APNs
import Observability
import PushModel
import SystemIO

/// The metrics of pools and credentials, computed at each scrape. Their series come and go with the credentials' files; counters stay.
extension DispatcherMetrics {
    private typealias Sample = PrometheusMetrics.Sample
    private typealias View = PoolTable.View

    func observe(_ pools: PoolTable, _ credentials: CredentialKeeper) {
        observeStates(pools)
        observeConnections(pools)
        observeTraffic(pools)
        observeCredentials(pools, credentials)
    }

    private func observeStates(_ pools: PoolTable) {
        each(pools, MetricName.poolState) { view in
            guard let state = view.state else { return [] }
            return ["connecting", "ready", "idle", "paused", "unavailable", "closed"].map {
                Sample([("state", $0)], state.label == $0 ? 1 : 0)
            }
        }
        each(pools, MetricName.proven) { view in view.state == nil ? [] : [Sample([], view.isProven ? 1 : 0)] }
        each(pools, MetricName.requestsWaiting) { view in
            view.state == nil ? [] : Lane.allCases.map { Sample([("lane", $0.rawValue)], Double(view.queued[$0] ?? 0)) }
        }
    }

    private func observeConnections(_ pools: PoolTable) {
        gauge(pools, MetricName.connections) { Double($0.connections.count) }
        gauge(pools, MetricName.openStreams) { view in Double(view.connections.reduce(0) { $0 + $1.openStreams }) }
        gauge(pools, MetricName.streamLimit) { view in Double(view.connections.reduce(0) { $0 + $1.streamLimit }) }
        gauge(pools, MetricName.tokenAge) { view in
            view.connections.compactMap(\.tokenMintedAt).min().map { (ContinuousClock.now - $0) / .seconds(1) }
        }
        counter(pools, MetricName.connectionsOpened) { $0.connectionsOpened }
        counter(pools, MetricName.connectionsFailed) { $0.connectionsFailed }
        counter(pools, MetricName.connectionsLost) { $0.connectionsLost }
        counters(pools, MetricName.connectionsRetired, "reason") { $0.retirements }
        counters(pools, MetricName.goAways, "reason") { $0.goAways }
    }

    private func observeTraffic(_ pools: PoolTable) {
        counter(pools, MetricName.requests) { $0.submitted }
        counter(pools, MetricName.unanswered) { $0.unknown }
        counter(pools, MetricName.timedOut) { $0.timedOut }
        counter(pools, MetricName.stopped) { $0.stopped }
        counter(pools, MetricName.handedOver) { $0.handedOver }
        counter(pools, MetricName.refusedStreams) { $0.refused }
        each(pools, MetricName.answers, isCounter: true) { view in
            view.totals.answers.sorted { ($0.key.topic, $0.key.answer) < ($1.key.topic, $1.key.answer) }.map {
                Sample([("topic", $0.key.topic), ("answer", $0.key.answer)], Double($0.value))
            }
        }
        let bounds = APNsPoolSnapshot.latencyBounds.map { Double($0) / 1000 }
        registry.observeHistograms(MetricName.answerTime) {
            pools.views().map { view in
                PrometheusMetrics.HistogramSample(
                    Self.dimensions(view), bounds: bounds, counts: view.totals.latency,
                    sum: Double(view.totals.latencySumMilliseconds) / 1000)
            }
        }
    }

    private func observeCredentials(_ pools: PoolTable, _ credentials: CredentialKeeper) {
        ofCredential(pools, MetricName.credentialAge) { view in
            guard let validity = view.plan?.entry.validity else { return nil }
            let now = WallClock.milliseconds() / 1000
            return switch validity {
            case .key(let writtenAt): writtenAt.map { Double(now - $0) }
            case .certificate(let notBefore, _): Double(now - notBefore)
            }
        }
        ofCredential(pools, MetricName.certificateEndsIn) { view in
            guard case .certificate(_, let notAfter)? = view.plan?.entry.validity else { return nil }
            return Double(notAfter - WallClock.milliseconds() / 1000)
        }
        registry.observe(MetricName.credentialsCurrent) {
            if case .refused = credentials.standing { 0 } else { 1 }
        }
    }

    // MARK: How

    private static func dimensions(_ view: View) -> [(String, String)] {
        credentialDimensions(view) + [("api", view.place.service.rawValue)]
    }

    private static func credentialDimensions(_ view: View) -> [(String, String)] {
        [("credential", view.place.credential), ("environment", view.place.environment.rawValue)]
    }

    private func each(_ pools: PoolTable, _ name: String, isCounter: Bool = false, _ read: @escaping @Sendable (View) -> [Sample]) {
        registry.observeAll(name, isCounter: isCounter) {
            pools.views().flatMap { view in read(view).map { Sample(Self.dimensions(view) + $0.dimensions, $0.value) } }
        }
    }

    /// Absent where there is no value.
    private func gauge(_ pools: PoolTable, _ name: String, _ read: @escaping @Sendable (View) -> Double?) {
        each(pools, name) { view in read(view).map { [Sample([], $0)] } ?? [] }
    }

    /// Once for all pools of the credential.
    private func ofCredential(_ pools: PoolTable, _ name: String, _ read: @escaping @Sendable (View) -> Double?) {
        registry.observeAll(name, isCounter: false) {
            pools.views().filter { $0.place.service == .device }.compactMap { view in
                read(view).map { Sample(Self.credentialDimensions(view), $0) }
            }
        }
    }

    private func counter(_ pools: PoolTable, _ name: String, _ read: @escaping @Sendable (APNsPoolSnapshot.Totals) -> Int) {
        each(pools, name, isCounter: true) { [Sample([], Double(read($0.totals)))] }
    }

    /// One series for each label that has occurred; the pools keep them a closed set.
    private func counters(
        _ pools: PoolTable, _ name: String, _ label: String, _ read: @escaping @Sendable (APNsPoolSnapshot.Totals) -> [String: Int]
    ) {
        each(pools, name, isCounter: true) { view in
            read(view.totals).sorted { $0.key < $1.key }.map { Sample([(label, $0.key)], Double($0.value)) }
        }
    }
}
