import Broker
import ChaosLedger
import PushAPI
import PushModel
import RabbitMQ
import StrictJSON
import Synchronization
import TestSupport

/// Samples everything once a second and writes it to the ledger.
final class Sampler: Sendable {
    private let platform: Platform
    private let ledgers: Ledgers
    private let caller: PushAPI
    private let tally: Tally
    private let last = Mutex((pushes: 0, backlog: 0))

    init(platform: Platform, ledgers: Ledgers, caller: PushAPI, tally: Tally) {
        (self.platform, self.ledgers, self.caller, self.tally) = (platform, ledgers, caller, tally)
    }

    /// Requests that the simulated APNs has taken, and messages in the queues of jobs, as seen last.
    var seen: (pushes: Int, backlog: Int) { last.withLock { $0 } }

    func run() async throws {
        var next = ContinuousClock.now
        while true {
            await sample()
            next = max(next + .seconds(1), .now)
            try await Task.sleep(until: next)
        }
    }

    /// Once a minute, for as long as the database answers: counting every row is work for it.
    func watchTables() async throws {
        while true {
            try await Task.sleep(for: .seconds(60))
            try? await noteTables()  // it is dead
        }
    }

    /// A name in place of a table's: jobs that the broker has not confirmed.
    static let unpublishedJobs = "unpublished jobs"

    /// The rows and the size of each table.
    func noteTables() async throws {
        let answer = try await platform.database.query(
            """
            SELECT relname, (xpath('//n/text()', query_to_xml(format('SELECT count(*) AS n FROM %I', relname), false, true, '')))[1]::text,
                (SELECT sum(pg_total_relation_size(part)) FROM (SELECT oid AS part UNION SELECT relid FROM pg_partition_tree(oid)) AS parts)
            FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition AND relnamespace = 'public'::regnamespace
            UNION ALL
            SELECT '\(Self.unpublishedJobs)', count(*)::text, 0 FROM jobs WHERE published_at IS NULL
            """)
        let at = now()
        let fields = answer.split(separator: "\n").map { $0.split(separator: "|") }
        ledgers.note(
            fields.compactMap { fields in
                guard fields.count == 3, let rows = Int64(fields[1]), let bytes = Int64(fields[2]) else { return nil }
                return .table(.init(at: at, name: String(fields[0]), rows: rows, bytes: bytes))
            })
    }

    /// Once, at the end: the connections of the links that need TLS.
    func noteWires() {
        ledgers.note(
            platform.links.tlsNames.compactMap { name in
                platform.links[name].map {
                    .wire(.init(at: now(), name: name, connections: $0.accepted.waiting.count, inClear: $0.connectionsInClear))
                }
            })
    }

    private func sample() async {
        let at = now()
        var records: [SampleRecord] = []
        let processes = await processes()
        for (name, id, port, isReady) in processes {
            guard let id, let facts = ProcessFacts(id: id) else { continue }
            records.append(
                .process(
                    .init(
                        at: at, name: name, id: Int64(id), memory: facts.residentBytes, descriptors: facts.descriptors,
                        clients: port.map { ProcessFacts.connections(of: id, to: $0) } ?? 0, threads: facts.threads, isReady: isReady)))
        }
        let depths = await queueDepths()
        for (name, depth) in depths { records.append(.queue(.init(at: at, name: name, depth: depth))) }
        let simulator = caller.other(baseURL: platform.simulatorURL, key: nil)
        let counters = try? await simulator.once(.init(.get, "/v1/counters"), within: .seconds(2)).json()
        let pushes = counters?["requests"]?.integerValue.map { Int($0) }
        last.withLock { last in
            if let pushes { last.pushes = pushes }
            if !depths.isEmpty { last.backlog = depths.reduce(0) { $0 + $1.1 } }
        }
        let counts = tally.counts
        records.append(
            .load(.init(at: at, answered: counts.answered, accepted: counts.accepted, refused: counts.refused, pushes: seen.pushes)))
        ledgers.note(records)
    }

    /// - Returns: names, process ids, the ports of those that grow old, and whether they are ready.
    private func processes() async -> [(String, Int32?, Int?, Bool)] {
        var found: [(String, Int32?, Int?, Bool)] = [
            ("postgres", platform.database.program.processID, nil, true), ("simulator", platform.simulator.processID, nil, true),
        ]
        found += platform.brokers.map { ($0.name, $0.processID, nil, true) }
        for service in platform.services {
            let id = service.program.processID
            let isReady = await caller.isWell("/readyz", at: service.url, within: .seconds(1))
            found.append((service.program.name, id, service.port, isReady))
        }
        return found
    }

    /// - Returns: an empty list while the broker does not answer.
    private func queueDepths() async -> [(String, Int)] {
        let uri = platform.brokerURI
        do {
            return try await onOwnThread {
                let topology = Topology()
                let connection = try RabbitMQConnection.open(RabbitMQConfiguration(uri: uri, connectionName: "chaos"))
                defer { connection.close() }
                let queues =
                    Lane.allCases.map { topology.jobQueue($0) } + topology.retryQueues
                    + [topology.tokenServiceOutcomesQueue, topology.deadQueue]
                return try queues.map { ($0, try connection.messageCount($0)) }
            }
        } catch { return [] }  // it is dead, frozen, or does not have its queues yet
    }
}
