/// Scenarios with their own bars. Each tests one promise for longer than a mixture of faults does.
extension RunSize {
    /// Every process of ours is stopped gracefully, again and again: nothing may be sent twice, nothing may be lost.
    static let gracefulStops = RunSize(
        name: "graceful-stops", notifications: 0, rate: 120, usersPerApp: 200, devicesPerApp: 350,
        sequence: (0..<100).map { $0 % 2 == 0 ? .dispatcherStop : .tokenServiceStop }, spacing: .seconds(2), drain: .seconds(120))

    /// GOAWAY to every connection, every 200 ms, for five minutes.
    static let goAway = RunSize(
        name: "goaway", notifications: 0, rate: 150, usersPerApp: 200, devicesPerApp: 350, sequence: [.goAway], seconds: [.goAway: 300],
        spacing: .seconds(1), drain: .seconds(120), connectionsPerSecond: 40)

    /// The servers are frozen, starved and killed. Every client gets an answer in time, and refusals end with their cause.
    static let outages = RunSize(
        name: "outages", notifications: 0, rate: 100, usersPerApp: 200, devicesPerApp: 350,
        sequence: [.brokerFreeze, .brokerAlarm, .postgresKill, .postgresFreeze, .brokerKill, .postgresFailover], spacing: .seconds(15),
        drain: .seconds(180), judgesAnswers: true)

    /// A steady rate with the faults of the small size, for half an hour: memory, descriptors and threads stay as they are.
    static let soak = RunSize(
        name: "soak", notifications: 0, rate: 150, usersPerApp: 600, devicesPerApp: 1_000,
        sequence: (0..<60).map { [.dispatcherKill, .linkCut, .tokenServiceStop, .goAway, .dispatcherStop, .tokenServiceKill][$0 % 6] },
        spacing: .seconds(30), drain: .seconds(300), sparesTheFirst: true, connectionsPerSecond: 40)

    /// Three times the capacity for a minute. The platform works at its capacity, refuses the rest at once, and is well afterwards.
    static let overload = RunSize(
        name: "overload", notifications: 0, rate: 20, usersPerApp: 200, devicesPerApp: 250, sequence: [.overload], spacing: .seconds(1),
        drain: .seconds(300), judgesAnswers: true, answerWithin: .seconds(5))

    /// Nothing can be written any more, first because RabbitMQ says that its disk is full, then because the disks are full.
    static let fullDisks = RunSize(
        name: "full-disks", notifications: 0, rate: 60, usersPerApp: 200, devicesPerApp: 250,
        sequence: [.brokerDisk, .brokerDiskFull, .postgresDiskFull], spacing: .seconds(15), drain: .seconds(180), judgesAnswers: true)

    /// TLS to the servers: cut, changed, and with a stranger's certificate.
    static let serverTLS = RunSize(
        name: "server-tls", notifications: 0, rate: 60, usersPerApp: 200, devicesPerApp: 250,
        sequence: [.serverTLSCut, .serverTLSGarbled, .serverCertificate], spacing: .seconds(12), drain: .seconds(180), judgesAnswers: true)

    /// One process after another is wrong about the time by more than an hour.
    static let clocks = RunSize(
        name: "clocks", notifications: 0, rate: 60, usersPerApp: 200, devicesPerApp: 250,
        sequence: [.dispatcherClockAhead, .tokenServiceClockBehind, .dispatcherClockBehind, .tokenServiceClockAhead], spacing: .seconds(12),
        drain: .seconds(1000), judgesAnswers: true)

    /// Any machine may be lost or cut off from the others. Half an hour.
    static let cluster = RunSize(
        name: "cluster", notifications: 0, rate: 60, usersPerApp: 200, devicesPerApp: 300,
        sequence: Array(repeating: clusterRound, count: 2).joined() + [.nodeAway, .brokerDiskFull, .nodesRestart, .postgresFailover],
        spacing: .seconds(12), drain: .seconds(300), isCluster: true, resumeWithin: .seconds(10))

    private static let clusterRound: [FaultKind] =
        Array(repeating: .nodeKill, count: 3) + Array(repeating: .nodeFreeze, count: 3) + Array(repeating: .nodeCut, count: 3)
        + Array(repeating: .nodeSeparation, count: 3) + Array(repeating: .serviceNodeCut, count: 3)
        + Array(repeating: .queueStandsStill, count: 3) + Array(repeating: .streamReplicaStandsStill, count: 2)
        + [.serviceCut, .serviceCut, .dispatcherKill, .tokenServiceKill, .standbyCut, .standbyKill]

    /// The same in four minutes.
    static let clusterSmall = RunSize(
        name: "cluster-small", notifications: 0, rate: 50, usersPerApp: 100, devicesPerApp: 150,
        sequence: [
            .nodeSeparation, .queueStandsStill, .nodeKill, .streamReplicaStandsStill, .nodeCut, .serviceCut, .standbyCut, .postgresFailover,
        ],
        // A queue stands still for longer than a publisher waits for a confirmation (10 s) and sending may take to go on (10 s).
        seconds: [.queueStandsStill: 24, .streamReplicaStandsStill: 20, .nodeCut: 12, .serviceCut: 8, .standbyCut: 12],
        spacing: .seconds(6), drain: .seconds(150), isCluster: true, resumeWithin: .seconds(10))

    /// All services are replaced by another version's, back, and once more.
    static let upgrade = RunSize(
        name: "upgrade", notifications: 0, rate: 100, usersPerApp: 200, devicesPerApp: 350, sequence: [.upgrade, .downgrade, .upgrade],
        spacing: .seconds(10), drain: .seconds(120))

    /// Live Activities on phones whose users change, while everything that carries their states dies or falls silent.
    static let activities = RunSize(
        name: "activities", notifications: 0, rate: 40, usersPerApp: 100, devicesPerApp: 120, phonesPerApp: 12,
        sequence: [
            .dispatcherKill, .tokenServiceKill, .apnsErrors, .dispatcherMidSend, .brokerKill, .tokenServiceCutOff, .apnsSlow,
            .postgresBackendKill, .goAwayMidSend, .dispatcherFreeze, .postgresKill, .linkCut, .apnsCut, .dispatcherKill, .tokenServiceKill,
            .brokerRestart,
        ], spacing: .seconds(8), drain: .seconds(240))

    static let scenarios = [
        gracefulStops, goAway, outages, soak, overload, fullDisks, serverTLS, clocks, cluster, clusterSmall, upgrade, activities,
    ]
}
