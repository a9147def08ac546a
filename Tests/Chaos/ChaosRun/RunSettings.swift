import Foundation

/// The settings of this run and the constants of every run.
struct RunSettings: Sendable {
    // MARK: Bounds that the checker gets too

    /// MAX_CONCURRENT_STREAMS of the simulated Apple, and connections of each pool.
    static let streams = 100
    static let connections = 2
    /// Pools are (credential × environment): one key, two environments.
    static let pools = 2
    /// The largest number of deliveries that a dispatcher has sent and not settled. A job of a hundred is settled with its last answer, and
    /// late answers of a job take up to twice their average. So the bound is twice the open streams, and 200 for outcomes that the broker
    /// has not confirmed yet (a thousand a second, a fifth of a second).
    static let inFlightBound = 2 * streams * connections * pools + 200
    static let memoryLimitBytes: Int64 = 512 << 20
    /// Of fences and cancels: promises 3 and 6 (docs/promises.md).
    static let graceMicroseconds: Int64 = 1_000_000
    static let relayLeaseSeconds = 5

    let size: RunSize
    let seed: UInt64
    /// Only faults of these kinds; nil for the plan of the size.
    let only: [FaultKind]?
    /// The folder of the ledgers.
    let folder: String
    /// The folder of the servers' files; the account `postgres` can enter it.
    let dataFolder: String
    let credentialsFolder: String
    /// The folder of the programs under test.
    let programs: String
    /// The folder of another commit's programs, with which the services begin; nil for the same.
    let otherPrograms: String?
    /// The built library of `Tests/Support/ClockShim`; nil without a C compiler.
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
    /// Phones on which Live Activities run, in each app.
    var phonesPerApp = 0
    /// How often each kind of fault is injected.
    var faults: [FaultKind: Int] = [:]
    /// These, in this order, instead.
    var sequence: [FaultKind]?
    /// The length of a fault of a kind, if not the usual one.
    var seconds: [FaultKind: Double] = [:]
    /// The shortest time from the beginning of one fault to the beginning of the next.
    let spacing: Duration
    /// How long the platform may take to finish everything after the last request.
    var drain: Duration
    /// Refusals, and how long answers take, are judged too.
    var judgesAnswers = false
    /// If so, the longest allowed time of an answer.
    var answerWithin = Duration.seconds(20)
    /// Three nodes of RabbitMQ, and a machine for every program.
    var isCluster = false
    /// In a cluster: the longest allowed time without a push although a notification waits.
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

    /// For the negative controls: as short as a deliberate fault needs to show. They choose the faults.
    static let control = RunSize(
        name: "control", notifications: 6_000, rate: 250, usersPerApp: 200, devicesPerApp: 250, phonesPerApp: 12, faults: [:],
        spacing: .seconds(4),
        drain: .seconds(180))

    static let all = [small, standard, full, control] + scenarios
}
