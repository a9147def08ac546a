import Foundation

/// What this run is told, and what every run has alike.
struct RunSettings: Sendable {
    // MARK: Bounds that the checker is told too

    /// MAX_CONCURRENT_STREAMS of the simulated Apple, and connections of each pool.
    static let streams = 100
    static let connections = 2
    /// Pools are (credential × environment): one key, two environments.
    static let pools = 2
    /// Deliveries that a dispatcher may have handed to APNs and not settled. A job of a hundred is settled with its last answer, and where answers come
    /// late the last one takes up to twice as long as they do on average: what is open, so much again that is answered, and 200 of which the broker
    /// has not confirmed the outcomes yet (a thousand a second, a fifth of a second).
    static let inFlightBound = 2 * streams * connections * pools + 200
    static let memoryLimitBytes: Int64 = 512 << 20
    /// Of fences and cancels: promises 3 and 6 (docs/promises.md).
    static let graceMicroseconds: Int64 = 1_000_000
    static let relayLeaseSeconds = 5

    let size: RunSize
    let seed: UInt64
    /// Only faults of these kinds; nil for the size's own plan.
    let only: [FaultKind]?
    /// Where the ledgers go.
    let folder: String
    /// Where the servers keep their files; the account `postgres` can enter it.
    let dataFolder: String
    let credentialsFolder: String
    /// Where the programs under test are.
    let programs: String
    /// Where those of another commit are, with which the services begin; nil for the same.
    let otherPrograms: String?
    /// What `Tests/Support/ClockShim` was made into; nil where there is no C compiler.
    let clockShim: String?
    let deliberateFault: [String: String]
    let commit: String
    let command: String

    var firstPrograms: String { otherPrograms ?? programs }
    var logFolder: String { "\(folder)/logs" }
    var hasStandbys: Bool { size.isCluster || !Set(plannedKinds).isDisjoint(with: [.postgresFailover, .standbyKill]) }
    /// The links to RabbitMQ and PostgreSQL are TLS.
    var hasTLS: Bool { !Set(plannedKinds).isDisjoint(with: [.serverTLSCut, .serverTLSGarbled, .serverCertificate]) }
    var setsClocks: Bool {
        !Set(plannedKinds)
            .isDisjoint(with: [.dispatcherClockAhead, .dispatcherClockBehind, .tokenServiceClockAhead, .tokenServiceClockBehind])
    }
    var plannedKinds: [FaultKind] { only ?? size.sequence ?? Array(size.faults.keys) }
}

/// How much, how fast and how often.
struct RunSize: Sendable {
    let name: String
    var notifications: Int
    /// Send requests a second.
    var rate: Double
    let usersPerApp: Int
    let devicesPerApp: Int
    /// How often each kind of fault is injected.
    var faults: [FaultKind: Int] = [:]
    /// These, in this order, instead.
    var sequence: [FaultKind]?
    /// How long one of a kind lasts, where not as long as usual.
    var seconds: [FaultKind: Double] = [:]
    /// From the beginning of one fault to the beginning of the next, at least.
    let spacing: Duration
    /// How long everything may take to come to its end once nothing new is sent.
    var drain: Duration
    /// Refusals, and how long answers take, are judged too.
    var judgesAnswers = false
    /// Where they are: no answer may take longer.
    var answerWithin = Duration.seconds(20)
    /// Three nodes of RabbitMQ, and a machine for every program.
    var isCluster = false
    /// Where it is: for how long nothing may be sent though something waits.
    var resumeWithin: Duration?
    /// The first token service and the first dispatcher are left alone, so that they grow old.
    var sparesTheFirst = false
    /// New connections to APNs in one second, of all dispatchers: more are a storm. nil: not judged.
    var connectionsPerSecond: Int?

    static let small = RunSize(
        name: "small", notifications: 20_000, rate: 250, usersPerApp: 200, devicesPerApp: 350,
        faults: [
            .dispatcherKill: 3, .dispatcherMidSend: 2, .tokenServiceKill: 2, .tokenServiceCutOff: 1, .goAwayMidSend: 1, .linkCut: 2,
            .postgresBackendKill: 1,
        ], spacing: .seconds(5), drain: .seconds(150))

    static let standard = RunSize(
        name: "standard", notifications: 200_000, rate: 500, usersPerApp: 600, devicesPerApp: 1_100,
        faults: [
            .dispatcherKill: 6, .dispatcherMidSend: 4, .tokenServiceKill: 7, .tokenServiceCutOff: 3, .brokerKill: 4,
            .postgresBackendKill: 4, .postgresKill: 2,
            .goAway: 4, .streams: 2, .linkCut: 4, .linkPause: 2, .linkBlackHole: 2, .dispatcherFreeze: 2, .tokenServiceFreeze: 2,
            .linkDeaf: 1, .linkHalfOpen: 1, .linkLatency: 1, .linkBandwidth: 1, .linkSlices: 1,
            .dispatcherStop: 2, .tokenServiceStop: 2, .brokerRestart: 1, .brokerAlarm: 1, .apnsCut: 2, .apnsTLS: 1, .descriptors: 1,
            .apnsErrors: 2, .apnsSlow: 2,
        ], spacing: .seconds(6), drain: .seconds(300))

    static let full = RunSize(
        name: "full", notifications: 1_000_000, rate: 600, usersPerApp: 1_500, devicesPerApp: 2_500,
        faults: [
            .dispatcherKill: 20, .dispatcherMidSend: 10, .tokenServiceKill: 10, .tokenServiceCutOff: 5, .brokerKill: 8,
            .postgresBackendKill: 4, .postgresKill: 3,
            .goAway: 10, .streams: 4, .linkCut: 10, .linkPause: 6, .linkBlackHole: 4, .dispatcherFreeze: 4, .tokenServiceFreeze: 4,
            .dispatcherStop: 6, .tokenServiceStop: 6, .brokerRestart: 2, .brokerAlarm: 2, .brokerFreeze: 1, .postgresFreeze: 1,
            .linkDeaf: 2, .linkHalfOpen: 2, .linkLatency: 2, .linkBandwidth: 2, .linkSlices: 2, .linkRefuse: 2, .queueDeleted: 1,
            .permissionsRevoked: 1, .queueLimit: 1, .apnsErrors: 4, .apnsSlow: 4, .postgresFailover: 1, .apnsCut: 4, .apnsTLS: 2,
            .descriptors: 2, .brokerDisk: 1,
        ], spacing: .seconds(8), drain: .seconds(1200))

    /// For the negative controls: as short as a deliberate fault needs to show. What they say to inject is injected.
    static let control = RunSize(
        name: "control", notifications: 4_000, rate: 250, usersPerApp: 200, devicesPerApp: 250, faults: [:], spacing: .seconds(4),
        drain: .seconds(180))

    static let all = [small, standard, full, control] + scenarios
}
