import APNs
import Broker
import PushModel
import SystemIO

/// Reports to the token service for which apps this process has credentials, and which of them APNs refuses: after every change, and every
/// minute, so that another report soon follows a lost one.
struct CredentialReporter: Sendable {
    private static let interval: Duration = .seconds(60)

    let table: PoolTable
    let publisher: Publisher
    let topology: Topology
    let source: String
    private var last: (credentials: [CredentialReport.Credential], at: ContinuousClock.Instant)?

    init(table: PoolTable, publisher: Publisher, topology: Topology, source: String) {
        self.table = table
        self.publisher = publisher
        self.topology = topology
        self.source = source
    }

    /// Publishes a report if one is due. While the broker is away it makes none, because old reports would wait for it. If the broker does
    /// not confirm one in time, the next call makes it again.
    mutating func report() async {
        guard publisher.state == .ready else { return last = nil }
        let credentials = table.serving.map(\.reported)
        if let last, last.credentials == credentials, ContinuousClock.now - last.at < Self.interval { return }
        let now = WallClock.milliseconds()
        let report = CredentialReport(id: .timeOrdered(milliseconds: now), source: source, time: now, credentials: credentials)
        let message = OutgoingMessage(
            exchange: topology.outcomesExchange, routingKey: CredentialReport.routingKey, messageID: report.id,
            contentType: CredentialReport.contentType, body: report.encoded())
        let answers = await publisher.publish([message], deadline: .seconds(5))
        last = answers == [.confirmed] ? (credentials, .now) : nil
    }
}

extension PoolTable.Serving {
    fileprivate var reported: CredentialReport.Credential {
        let refusal = all.lazy.compactMap { if case .paused(let reason) = $0.pool.state { reason } else { nil } }.first
        let (kind, id): (CredentialReport.Credential.Kind, String) =
            switch plan.credential.kind {
            case .token(_, let keyID, _): (.key, keyID)
            case .certificate: (.certificate, plan.credential.name)
            }
        return .init(kind: kind, id: id, environment: plan.environment, apps: plan.entry.apps, refusal: refusal)
    }
}
