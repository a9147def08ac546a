import Postgres
import PushAPI
import TestSupport
import Testing

/// Each service while a server is down, with processes and under load. Set `PUSH_TEST_OUTAGE_SECONDS=60` for the full minute.
@Suite("The platform loses no accepted notification when a server is away for a while", .timeLimit(.minutes(10)))
struct ServerOutageTests {
    /// The ways in which a server is away.
    enum Absence: String, CaseIterable, CustomTestStringConvertible {
        /// Connections are reset and new ones refused, as without the process.
        case gone
        /// No answer and no error comes back, as without the network.
        case silent

        var testDescription: String { rawValue }

        func begin(on link: FaultProxy) {
            switch self {
            case .gone:
                link.set(.refusing)
                link.cut()
            case .silent: link.set(.blackHole)
            }
        }

        func end(on link: FaultProxy) { link.set(.forwarding) }
    }

    @Test("Without RabbitMQ under load every answer is a 202 that is honoured later, or a 503", arguments: Absence.allCases)
    func withoutTheBroker(absence: Absence) async throws {
        try await withPlatform { platform in
            let (host, port) = try platform.brokerAddress
            let link = try FaultProxy(toHost: host, port: port)
            defer { link.stop() }
            try await platform.startSimulator()
            let broker = ["RABBITMQ_URL": try platform.brokerURI(through: link.port)]
            let tokenService = try await platform.startTokenService(broker.merging(["BACKLOG_LIMIT": "100"]) { own, _ in own })
            let dispatcher = try await platform.startDispatcher("dispatcher", broker)
            try await Self.check(platform, tokenService, link, absence) { load, before in
                // The service accepts as many notifications as may wait, and then no more.
                _ = try await eventually("the backlog is full") { load.record.statuses[503] ?? 0 > 0 ? true : nil }
                #expect(load.record.accepted.count > before)
            }
            #expect(dispatcher.process.isRunning)
        }
    }

    @Test("Without PostgreSQL under load every answer is 503, and accepted notifications are sent later", arguments: Absence.allCases)
    func withoutTheDatabase(absence: Absence) async throws {
        try await withPlatform { platform in
            let (host, port) = try platform.databaseAddress
            let link = try FaultProxy(toHost: host, port: port)
            defer { link.stop() }
            try await platform.startSimulator()
            let tokenService = try await platform.startTokenService(["POSTGRES_URL": try platform.databaseURI(through: link.port)])
            let dispatcher = try await platform.startDispatcher()
            try await Self.check(platform, tokenService, link, absence) { load, _ in
                // No client hangs: while the server is away, every client gets answers, and gets them quickly when the service knows of the
                // outage.
                let refusals = absence == .gone ? 50 : 4
                _ = try await eventually("requests are refused") { load.record.statuses[503] ?? 0 >= refusals ? true : nil }
            }
            #expect(dispatcher.process.isRunning)
        }
    }

    /// - Parameter duringOutage: Checks before the server comes back; its argument is the number of notifications accepted before the
    ///   outage.
    private static func check(
        _ platform: Platform, _ tokenService: RunningService, _ link: FaultProxy, _ absence: Absence,
        duringOutage: (SteadyLoad, Int) async throws -> Void
    ) async throws {
        try await Client.with(platform, tokenService) { client in
            let device = try await client.registerDevices(1, user: "ada")[0]
            let load = SteadyLoad(client, user: "ada")
            try await load.run {
                _ = try await eventually("the load runs") { load.record.accepted.count >= 20 ? true : nil }
                let before = load.record.accepted.count
                absence.begin(on: link)
                try await duringOutage(load, before)
                try await Task.sleep(for: TestParameters.outage)  // the passing of time itself is what is tested
                absence.end(on: link)
                let during = load.record.accepted.count
                _ = try await eventually("the service accepts again, without a restart") {
                    load.record.accepted.count >= during + 20 ? true : nil
                }
            }
            #expect(tokenService.process.isRunning)
            let record = load.record
            print("ServerOutageTests: \(record.statuses)")
            #expect(record.unanswered.isEmpty)
            #expect(Set(record.statuses.keys) == [202, 503])
            #expect(record.refusalsWithoutRetryAfter == 0)
            try await Self.honoured(record, device, client, on: platform)
        }
    }

    /// Every 202 has its one notification, and every notification has arrived.
    private static func honoured(_ record: SteadyLoad.Record, _ device: Client.Device, _ client: Client, on platform: Platform) async throws
    {
        _ = try await eventually("everything that was accepted has its outcome", within: .seconds(300)) {
            try await platform.texts("SELECT id::text AS text FROM notifications WHERE state <> 'completed'").isEmpty ? true : nil
        }
        let notifications = try await platform.texts("SELECT id::text AS text FROM notifications")
        #expect(notifications.count == record.accepted.count, "one key, one notification")
        #expect(Set(notifications) == Set(record.accepted.values))
        let outcomes = try await platform.texts("SELECT class AS text FROM deliveries")
        #expect(outcomes.count == record.accepted.count && Set(outcomes) == ["accepted"])
        let arrivals = try await client.arrivals()
        #expect(Set(arrivals.map(\.apnsID)) == Set(try await platform.texts("SELECT id::text AS text FROM deliveries")))
        #expect(arrivals.allSatisfy { $0.token == device.token })
    }
}

extension Platform {
    /// The column `text` of a query's rows.
    fileprivate func texts(_ query: PostgresQuery) async throws -> [String] {
        try await database.session { session in try session.execute(query).column("text") }
    }
}
