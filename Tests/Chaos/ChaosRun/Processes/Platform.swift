import Foundation
import Synchronization
import TestSupport

/// The platform under fire: real servers, two token services, three dispatchers, the simulated Apple, and a proxy on every link between them.
final class Platform: Sendable {
    static let tokenServices = 2
    static let dispatchers = 3

    /// A service with a readiness of its own.
    struct Service: Sendable {
        let program: OwnedProgram
        let port: Int
        /// Past every proxy: the operator's view.
        let url: String
        /// Through the proxy: what clients use.
        let clientURL: String
    }

    let settings: RunSettings
    let postgres: PostgresServer
    let standby: PostgresServer?
    let broker: BrokerServer
    /// Of both servers, where they speak TLS.
    let certificates: ServerCertificates?
    let simulator: OwnedProgram
    let simulatorURL: String
    let tokenServices: [Service]
    let dispatchers: [Service]
    let links: Links
    /// Of the services whose clocks can be set.
    let clocks: [String: ServiceClock]
    /// Where they keep their files, where these disks are to be filled.
    let brokerDisk: SmallDisk?
    let postgresDisk: SmallDisk?
    private let isFailedOver = Atomic(false)

    /// The PostgreSQL that takes writes.
    var database: PostgresServer { isFailedOver.load(ordering: .acquiring) ? standby ?? postgres : postgres }
    func hasFailedOver() { isFailedOver.store(true, ordering: .releasing) }

    var services: [Service] { tokenServices + dispatchers }
    /// All that may be killed, by name.
    var programs: [OwnedProgram] {
        [postgres.program, broker.program, simulator] + services.map(\.program) + (standby.map { [$0.program] } ?? [])
    }

    /// Starts the servers and makes everything else ready to be started.
    init(_ settings: RunSettings) async throws {
        self.settings = settings
        let (data, logs) = (settings.dataFolder, settings.logFolder)
        let register = try ProcessList(path: "\(settings.folder)/processes")
        brokerDisk = try await Self.disk(.brokerDiskFull, "\(data)/rabbitmq/mnesia", mebibytes: 256, settings)
        postgresDisk = try await Self.disk(.postgresDiskFull, "\(data)/postgres", mebibytes: 384, settings)
        certificates = settings.hasTLS ? try await ServerCertificates(folder: "\(data)/certificates") : nil
        broker = try BrokerServer(
            folder: "\(data)/rabbitmq", logs: logs, isSmall: brokerDisk != nil, certificates: certificates, register: register)
        try broker.start()
        postgres = try await PostgresServer(
            name: "postgres", folder: "\(data)/postgres" + (postgresDisk == nil ? "" : "/data"), hasStandby: settings.hasStandby,
            options: Self.postgresOptions(isSmall: postgresDisk != nil, certificates), logs: logs, register: register)
        try postgres.program.start()
        try await waitUntil("PostgreSQL serves", postgres.program) { [postgres] in await postgres.isReady() }
        if settings.hasStandby {
            let standby = try await PostgresServer(following: postgres, folder: "\(data)/postgres-2", logs: logs, register: register)
            try standby.program.start()
            try await waitUntil("the second PostgreSQL serves", standby.program) { await standby.isReady() }
            self.standby = standby
        } else {
            standby = nil
        }
        let clocks = try Self.clocks(settings)
        self.clocks = clocks
        var links = Links()
        let ports = try FreePorts.choose(3)
        simulatorURL = "http://127.0.0.1:\(ports[2])"
        simulator = try Self.simulator(settings, ports, register)
        var tokenServices: [Service] = []
        for number in 1...Self.tokenServices {
            let name = "token-service-\(number)"
            let url = try Self.postgresURL(name, &links, postgres, standby, certificates)
            tokenServices.append(try Self.tokenService(name, settings, &links, broker, url, clocks, register))
        }
        var dispatchers: [Service] = []
        for number in 1...Self.dispatchers {
            dispatchers.append(try Self.dispatcher("dispatcher-\(number)", settings, &links, broker, ports, clocks, register))
        }
        (self.links, self.tokenServices, self.dispatchers) = (links, tokenServices, dispatchers)
        try await waitUntil("RabbitMQ serves", broker.program) { [broker] in await broker.isReady() }
    }

    private static func postgresOptions(isSmall: Bool, _ certificates: ServerCertificates?) -> [String] {
        var settings = isSmall ? ["max_wal_size=96MB"] : []
        if let certificates { settings += ["ssl=on", "ssl_cert_file=\(certificates.certificate)", "ssl_key_file=\(certificates.key)"] }
        return settings.flatMap { ["-c", $0] }
    }

    private static func disk(_ kind: FaultKind, _ folder: String, mebibytes: Int, _ settings: RunSettings) async throws -> SmallDisk? {
        guard settings.plannedKinds.contains(kind) else { return nil }
        return try await SmallDisk.mount(at: folder, mebibytes: mebibytes, list: "\(settings.folder)/mounts")
    }

    /// Starts what talks to the servers: first the simulated Apple, then one service after another, as the first one makes the schema.
    func startServices(_ caller: ServiceCaller) async throws {
        try simulator.start()
        try await waitUntil("the simulator serves", simulator) {
            await caller.call(.get, "\(simulatorURL)/healthz", patience: .seconds(2))?.status == 200
        }
        for service in services {
            try service.program.start()
            if service.program === tokenServices[0].program { try await waitUntilReady(service, caller) }
        }
        for service in services { try await waitUntilReady(service, caller) }
    }

    private func waitUntilReady(_ service: Service, _ caller: ServiceCaller) async throws {
        try await waitUntil("\(service.program.name) is ready", service.program) {
            await caller.call(.get, "\(service.url)/readyz", patience: .seconds(2))?.status == 200
        }
    }

    /// Ends everything, whatever state it is in; the simulator late, so that its journal has everything.
    /// - Returns: who did not stop in time when asked politely.
    func stop() async -> [String] {
        var late: [String] = []
        for service in services where !(await service.program.stop()) { late.append(service.program.name) }
        if !(await simulator.stop()) { late.append(simulator.name) }
        await broker.stop()
        await standby?.stop()
        await postgres.stop()
        links.stop()
        await brokerDisk?.unmount()
        await postgresDisk?.unmount()
        return late
    }

    private static func simulator(_ settings: RunSettings, _ ports: [Int], _ register: ProcessList) throws -> OwnedProgram {
        let credentials = settings.credentialsFolder
        return try OwnedProgram(
            "apns-simulator", "\(settings.programs)/apns-simulator",
            environment: [
                "PRODUCTION_PORT": "\(ports[0])", "SANDBOX_PORT": "\(ports[1])", "CONTROL_PORT": "\(ports[2])",
                "TLS_CERTIFICATE_FILE": "\(credentials)/simulator.crt", "TLS_KEY_FILE": "\(credentials)/simulator.key",
                "KEYS_FILE": "\(credentials)/simulator-keys.json", "JOURNAL_FILE": "\(settings.folder)/journal", "JOURNAL_CAPACITY": "1000",
                "STREAMS": "\(RunSettings.streams)", "LOG_LEVEL": "warning",
            ], folder: settings.logFolder, register: register)
    }

    private static func postgresURL(
        _ name: String, _ links: inout Links, _ postgres: PostgresServer, _ standby: PostgresServer?, _ certificates: ServerCertificates?
    ) throws -> String {
        let opening: FaultProxy.Opening? = certificates == nil ? nil : .postgres
        var hosts = "127.0.0.1:\(try links.add("\(name)>postgres", to: postgres.port, opening: opening))"
        var options = "connect_timeout=2"
        if let standby {
            hosts += ",127.0.0.1:\(try links.add("\(name)>postgres-2", to: standby.port))"
            options += "&target_session_attrs=read-write"
        }
        if let certificates { options += "&sslmode=verify-full&sslrootcert=\(certificates.authority)" }
        return "postgresql://postgres@\(hosts)/postgres?\(options)"
    }

    private static func rabbitMQ(_ name: String, _ links: inout Links, _ broker: BrokerServer) throws -> [String: String] {
        let opening: FaultProxy.Opening? = broker.clientPort == broker.port ? nil : .record
        return broker.settings(through: try links.add("\(name)>rabbitmq", to: broker.clientPort, opening: opening))
    }

    private static func clocks(_ settings: RunSettings) throws -> [String: ServiceClock] {
        guard settings.setsClocks else { return [:] }
        guard let shim = settings.clockShim else {
            say("    no clock can be set: there was no C compiler for what shows the services another time")
            return [:]
        }
        let names = (1...tokenServices).map { "token-service-\($0)" } + (1...dispatchers).map { "dispatcher-\($0)" }
        return try Dictionary(uniqueKeysWithValues: names.map { ($0, try ServiceClock("\(settings.folder)/clocks/\($0)", shim: shim)) })
    }

    private static func tokenService(
        _ name: String, _ settings: RunSettings, _ links: inout Links, _ broker: BrokerServer, _ postgresURL: String,
        _ clocks: [String: ServiceClock], _ register: ProcessList
    ) throws -> Service {
        let port = try FreePorts.choose(1)[0]
        let program = try OwnedProgram(
            name, "\(settings.programs)/token-service",
            environment: [
                "HTTP_PORT": "\(port)", "POSTGRES_URL": postgresURL,
                "BOOTSTRAP_KEY_FILE": "\(settings.folder)/admin.key", "RELAY_LEASE_SECONDS": "\(RunSettings.relayLeaseSeconds)",
                "LOG_LEVEL": "notice",
            ].merging(try rabbitMQ(name, &links, broker)) { own, _ in own }.merging(settings.deliberateFault) { own, _ in own }
                .merging(clocks[name]?.environment ?? [:]) { own, _ in own },
            folder: settings.logFolder, register: register)
        return Service(
            program: program, port: port, url: "http://127.0.0.1:\(port)",
            clientURL: "http://127.0.0.1:\(try links.add("client>\(name)", to: port))")
    }

    private static func dispatcher(
        _ name: String, _ settings: RunSettings, _ links: inout Links, _ broker: BrokerServer, _ apns: [Int],
        _ clocks: [String: ServiceClock], _ register: ProcessList
    ) throws -> Service {
        let port = try FreePorts.choose(1)[0]
        let credentials = settings.credentialsFolder
        let program = try OwnedProgram(
            name, "\(settings.programs)/dispatcher",
            environment: [
                "OPERATIONS_PORT": "\(port)", "INSTANCE": name,
                "APNS_CREDENTIALS_FILE": "\(credentials)/credentials.json", "APNS_CA_FILE": "\(credentials)/ca.crt",
                "APNS_PRODUCTION_URL": "https://localhost:\(try links.add("\(name)>apns-production", to: apns[0]))",
                "APNS_SANDBOX_URL": "https://localhost:\(try links.add("\(name)>apns-sandbox", to: apns[1]))",
                "APNS_CONNECTIONS": "\(RunSettings.connections)", "APNS_CONNECTIONS_MAXIMUM": "\(RunSettings.connections)",
                "LOG_LEVEL": "notice",
            ].merging(try rabbitMQ(name, &links, broker)) { own, _ in own }.merging(settings.deliberateFault) { own, _ in own }
                .merging(clocks[name]?.environment ?? [:]) { own, _ in own },
            folder: settings.logFolder, register: register)
        return Service(program: program, port: port, url: "http://127.0.0.1:\(port)", clientURL: "http://127.0.0.1:\(port)")
    }
}
