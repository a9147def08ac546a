/// The bars of their own: one promise each, looked at for longer than a mixture of faults would.
extension RunSize {
    /// Every process of ours is stopped gracefully, again and again: nothing may be sent twice, nothing may be lost.
    static let gracefulStops = RunSize(
        name: "graceful-stops", notifications: 0, rate: 120, usersPerApp: 200, devicesPerApp: 350,
        sequence: (0..<100).map { $0 % 2 == 0 ? .dispatcherStop : .tokenServiceStop }, spacing: .seconds(2), drain: .seconds(120))

    /// GOAWAY to every connection, every 200 ms, for five minutes.
    static let goAway = RunSize(
        name: "goaway", notifications: 0, rate: 150, usersPerApp: 200, devicesPerApp: 350, sequence: [.goAway], seconds: [.goAway: 300],
        spacing: .seconds(1), drain: .seconds(120))

    /// The servers are frozen, starved and killed: everybody gets an answer in time, and refusals end with their cause.
    static let outages = RunSize(
        name: "outages", notifications: 0, rate: 100, usersPerApp: 200, devicesPerApp: 350,
        sequence: [.brokerFreeze, .brokerAlarm, .postgresKill, .postgresFreeze, .brokerKill, .postgresFailover], spacing: .seconds(15),
        drain: .seconds(180), judgesAnswers: true)

    /// A steady rate with the faults of the small size, for half an hour: memory, descriptors and threads stay as they are.
    static let soak = RunSize(
        name: "soak", notifications: 0, rate: 150, usersPerApp: 600, devicesPerApp: 1_000,
        sequence: (0..<60).map { [.dispatcherKill, .linkCut, .tokenServiceStop, .goAway, .dispatcherStop, .tokenServiceKill][$0 % 6] },
        spacing: .seconds(30), drain: .seconds(300))

    static let scenarios = [gracefulStops, goAway, outages, soak]
}
