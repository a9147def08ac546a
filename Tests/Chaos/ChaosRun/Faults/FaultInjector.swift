import ChaosLedger
import Glibc
import PushAPI
import PushModel
import Synchronization
import TestSupport

/// Injects the faults of the plan, one at a time, and records each in the ledger: its kind, its target, and its recovery.
final class FaultInjector: Sendable {
    let platform: Platform
    let ledgers: Ledgers
    let caller: PushAPI
    let load: LoadGenerator
    private let lastID = Atomic<Int64>(0)
    private let current = Mutex("")
    private let count = Atomic(0)

    init(platform: Platform, ledgers: Ledgers, caller: PushAPI, load: LoadGenerator) {
        (self.platform, self.ledgers, self.caller, self.load) = (platform, ledgers, caller, load)
    }

    /// The present fault, for people.
    var doing: String { current.withLock { $0 } }
    var done: Int { count.load(ordering: .relaxed) }

    func run(_ plan: FaultPlan) async throws {
        let begin = ContinuousClock.now
        for entry in plan.entries {
            try await Task.sleep(until: begin + .seconds(entry.at))
            current.withLock { $0 = entry.kind.rawValue }
            try await inject(entry)
            current.withLock { $0 = "" }
            count.add(1, ordering: .relaxed)
        }
    }

    private func inject(_ entry: FaultPlan.Entry) async throws {
        var random = entry.random
        switch entry.kind {
        case .dispatcherKill: try await kill(try draw(platform.dispatchers, &random))
        case .tokenServiceKill: try await kill(try draw(platform.tokenServices, &random))
        case .tokenServiceCutOff:
            try await killCutOff(try draw(platform.tokenServices, &random), seconds: Double.random(in: 1...3, using: &random))
        case .dispatcherMidSend:
            try await killInMidSend(try draw(platform.dispatchers, &random), seconds: Double.random(in: 1...2, using: &random))
        case .goAwayMidSend: try await sayGoAwayInMidSend(times: 3)
        case .dispatcherFreeze: try await freeze(try draw(platform.dispatchers, &random), seconds: Double.random(in: 2...8, using: &random))
        case .tokenServiceFreeze:
            try await freeze(try draw(platform.tokenServices, &random), seconds: Double.random(in: 2...8, using: &random))
        case .dispatcherStop: try await stop(try draw(platform.dispatchers, &random))
        case .tokenServiceStop: try await stop(try draw(platform.tokenServices, &random))
        case .brokerKill: try await endBroker(cleanly: false)
        case .brokerRestart: try await endBroker(cleanly: true)
        case .brokerFreeze: try await freezeBroker(seconds: seconds(entry, 30))
        case .brokerAlarm: try await alarm(seconds: seconds(entry, 10))
        case .queueLimit: try await limitQueues(seconds: seconds(entry, 10))
        case .queueDeleted: try await deleteQueue()
        case .permissionsRevoked: try await revokePermissions(seconds: seconds(entry, 5))
        case .postgresBackendKill: try await terminateBackends()
        case .postgresKill: try await killPostgres()
        case .postgresFreeze: try await freezePostgres(seconds: seconds(entry, 30))
        case .postgresFailover: try await failOver()
        case .linkCut: try await cutLink(&random)
        case .linkPause: try await disturbLink(.paused, .latency, seconds: Double.random(in: 1...5, using: &random), &random)
        case .linkBlackHole: try await disturbLink(.blackHole, .blackHole, seconds: Double.random(in: 3...12, using: &random), &random)
        case .linkRefuse: try await disturbLink(.refusing, .reset, seconds: Double.random(in: 2...8, using: &random), &random)
        case .linkDeaf: try await deafenLink(seconds: Double.random(in: 3...12, using: &random), &random)
        case .linkHalfOpen: try await loseLink(&random)
        case .linkLatency: try await disturbLink(Self.slow, .latency, seconds: Double.random(in: 3...8, using: &random), &random)
        case .linkBandwidth: try await disturbLink(Self.narrow, .bandwidth, seconds: Double.random(in: 3...8, using: &random), &random)
        case .linkSlices: try await disturbLink(Self.sliced, .slices, seconds: Double.random(in: 3...8, using: &random), &random)
        case .goAway: try await sendGoAways(seconds: seconds(entry, 5))
        case .streams: try await limitStreams(seconds: seconds(entry, 4))
        case .apnsErrors: try await answerErrors(seconds: seconds(entry, 5))
        case .apnsCut: try await cutAPNs()
        case .apnsTLS: try await breakTLS(seconds: seconds(entry, 5))
        case .descriptors: try await starve(try draw(platform.services, &random), seconds: seconds(entry, 5))
        case .brokerDisk: try await fillDisk(seconds: seconds(entry, 10))
        case .apnsSlow: try await answerSlowly(seconds: seconds(entry, 5))
        case .brokerDiskFull: try await fillBrokerDisk(seconds: seconds(entry, 15))
        case .postgresDiskFull: try await fillPostgresDisk(seconds: seconds(entry, 15))
        case .serverTLSCut: try await cutHandshakes(seconds: seconds(entry, 8), &random)
        case .serverTLSGarbled: try await garbleRecords(seconds: seconds(entry, 8), &random)
        case .serverCertificate: try await showWrongCertificates(seconds: seconds(entry, 18))
        case .dispatcherClockAhead: try await setClock(try draw(platform.dispatchers, &random), ahead: true, seconds: seconds(entry, 20))
        case .dispatcherClockBehind: try await setClock(try draw(platform.dispatchers, &random), ahead: false, seconds: seconds(entry, 20))
        case .tokenServiceClockAhead:
            try await setClock(try draw(platform.tokenServices, &random), ahead: true, seconds: seconds(entry, 20))
        case .tokenServiceClockBehind:
            try await setClock(try draw(platform.tokenServices, &random), ahead: false, seconds: seconds(entry, 20))
        case .overload: try await overload(seconds: seconds(entry, 60), random)
        case .upgrade: try await replace(platform.dispatchers + platform.tokenServices, from: platform.settings.programs)
        case .downgrade: try await replace(platform.tokenServices + platform.dispatchers, from: platform.settings.firstPrograms)
        case .nodeKill: try await killNode(node(entry), awayFor: 0)
        case .nodeAway: try await killNode(node(entry), awayFor: seconds(entry, 120))
        case .nodeFreeze: try await freezeNode(node(entry), seconds: seconds(entry, 20))
        case .nodeCut: try await cutOff(node(entry), seconds: seconds(entry, 20))
        case .nodeSeparation: try await separate(node(entry), seconds: seconds(entry, 20))
        case .nodesRestart: try await restartNodes()
        case .queueStandsStill:
            let drawn = Double.random(in: 4...30, using: &random)
            try await suspendQueue(seconds: seconds(entry, drawn), &random)
        case .streamReplicaStandsStill:
            let drawn = Double.random(in: 4...40, using: &random)
            try await suspendReplica(seconds: seconds(entry, drawn), &random)
        case .serviceCut: try await cutOff(try draw(platform.services, &random), seconds: seconds(entry, 15))
        case .serviceNodeCut:
            try await separate(try draw(platform.services, &random), from: node(entry), seconds: seconds(entry, 20))
        case .standbyCut: try await cut(standby(entry), seconds: seconds(entry, 20))
        case .standbyKill: try await kill(standby(entry), awayFor: seconds(entry, 20))
        }
    }

    private func node(_ entry: FaultPlan.Entry) -> BrokerServer { platform.brokers[entry.number % platform.brokers.count] }

    private func standby(_ entry: FaultPlan.Entry) throws -> PostgresServer {
        let standbys = platform.databases.standbys
        guard standbys.count > 1 else { throw ChaosError("there are no two standbys") }
        return standbys[entry.number % standbys.count]
    }

    private func seconds(_ entry: FaultPlan.Entry, _ usual: Double) -> Double { platform.settings.size.seconds[entry.kind] ?? usual }

    // MARK: Noting

    /// Records the beginning of a fault.
    func begin(
        _ kind: FaultRecord.Kind, _ target: String, process: Int32? = nil, lane: Lane? = nil, detail: String? = nil
    ) -> FaultRecord {
        var record = FaultRecord(
            id: lastID.add(1, ordering: .relaxed).newValue, kind: kind, target: target, process: process.map { Int64($0) }, beganAt: now())
        (record.lane, record.detail) = (lane, detail)
        ledgers.note(record)
        return record
    }

    /// Records the end of a fault, whose effects may last.
    func end(_ record: inout FaultRecord) {
        record.endedAt = now()
        ledgers.note(record)
    }

    /// Waits until the target is ready again and records that.
    func recover(_ record: inout FaultRecord, within patience: Duration = .seconds(120), _ isReady: () async -> Bool) async throws {
        let target = record.target
        try await waitUntil("\(target) is ready again", within: patience, isReady)
        record.recoveredAt = now()
        ledgers.note(record)
    }

    func draw(_ services: [Platform.Service], _ random: inout SeededGenerator) throws -> Platform.Service {
        let mayFall = platform.settings.size.sparesTheFirst ? services.filter { !$0.program.name.hasSuffix("-1") } : services
        guard let one = mayFall.randomElement(using: &random) else { throw ChaosError("there is nothing to break") }
        return one
    }

    func isReady(_ service: Platform.Service) async -> Bool { await caller.isWell("/readyz", at: service.url) }
}
