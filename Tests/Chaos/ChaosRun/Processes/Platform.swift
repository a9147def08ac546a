import Foundation
import PushAPI
import TestSupport

/// The platform under test: real servers, two token services, three dispatchers and the simulated Apple. Either there is a proxy on every
/// link between them, or each of them has its own machine and RabbitMQ has three nodes.
final class Platform: Sendable {
    static let tokenServices = 2
    static let dispatchers = 3

    /// A service with a readiness of its own.
    struct Service: Sendable {
        let program: OwnedProgram
        /// nil: this one.
        let machine: Machine?
        let port: Int
        /// The operator's address, past every proxy.
        let url: String
        /// The clients' address, through the proxy.
        let clientURL: String
    }

    let settings: RunSettings
    /// nil where everything is on this machine.
    let network: Network?
    let databases: PostgresServers
    /// The nodes of RabbitMQ: one or three.
    let brokers: [BrokerServer]
    /// Of both servers, where they speak TLS.
    let certificates: ServerCertificates?
    let simulator: OwnedProgram
    let simulatorURL: String
    let tokenServices: [Service]
    let dispatchers: [Service]
    let links: Links
    /// Of the services whose clocks can be set.
    let clocks: [String: ServiceClock]
    /// The disks of their files, if a fault fills them.
    let brokerDisk: SmallDisk?
    let postgresDisk: SmallDisk?

    /// The PostgreSQL that takes writes.
    var database: PostgresServer { databases.primary }
    /// The only node, or the first of three.
    var broker: BrokerServer { brokers[0] }
    var services: [Service] { tokenServices + dispatchers }
    /// The address for observers; any node serves.
    var brokerURI: String { BrokerServer.uri(of: brokers) }

    /// Starts the servers and makes everything else ready to be started.
    init(_ settings: RunSettings) async throws {
        self.settings = settings
        let (data, logs) = (settings.dataFolder, settings.logFolder)
        let register = try ProcessList(path: "\(settings.folder)/processes")
        let network = try await Self.network(settings)
        self.network = network
        let nodes = Self.nodes(settings)
        let brokerDisk = try await Self.disk(.brokerDiskFull, "\(data)/\(nodes[nodes.count - 1])/mnesia", mebibytes: 256, settings)
        self.brokerDisk = brokerDisk
        let postgresDisk = try await Self.disk(.postgresDiskFull, "\(data)/postgres", mebibytes: 384, settings)
        self.postgresDisk = postgresDisk
        certificates = settings.hasTLS ? try await ServerCertificates(folder: "\(data)/certificates") : nil
        let certificates = certificates
        brokers = try nodes.map { name in
            try BrokerServer(
                name, folder: "\(data)/\(name)", logs: logs, isSmall: brokerDisk != nil && name == nodes.last, certificates: certificates,
                network: network, register: register)
        }
        try brokers[0].start()
        databases = try await PostgresServers(
            Self.databases(settings), network: network,
            folder: { name in "\(data)/\(name)" + (postgresDisk != nil && name == "postgres" ? "/data" : "") },
            options: Self.postgresOptions(isSmall: postgresDisk != nil, certificates), logs: logs, register: register)
        let clocks = try Self.clocks(settings)
        self.clocks = clocks
        var links = Links()
        let ports = try FreePorts.choose(5)
        simulatorURL = "http://\(Self.hub(network)):\(ports[2])"
        simulator = try Self.simulator(settings, Self.hub(network), ports, register)
        let maker = ServiceMaker(
            settings: settings, network: network, brokers: brokers, databases: databases.all, certificates: certificates, apns: ports,
            clocks: clocks, register: register)
        tokenServices = try (1...Self.tokenServices).map { try maker.tokenService("token-service-\($0)", &links) }
        dispatchers = try (1...Self.dispatchers).map { try maker.dispatcher("dispatcher-\($0)", &links) }
        self.links = links
        try await waitUntil("RabbitMQ serves", broker.program, within: .seconds(120)) { [broker] in await broker.isReady() }
        for node in brokers.dropFirst() {
            try node.start()
            try await waitUntil("\(node.name) serves", node.program, within: .seconds(120)) { await node.isReady() }
            try await node.join(broker)
        }
        if brokers.count > 1 { try await broker.control(["await_online_nodes", "\(brokers.count)", "--timeout", "60"]) }
    }

    /// The last of them has the small disk, where there is one.
    private static func nodes(_ settings: RunSettings) -> [String] {
        settings.size.isCluster ? (1...3).map { "rabbitmq-\($0)" } : ["rabbitmq"]
    }

    private static func databases(_ settings: RunSettings) -> [String] {
        settings.hasStandbys ? ["postgres", "postgres-2", "postgres-3"] : ["postgres"]
    }

    private static func network(_ settings: RunSettings) async throws -> Network? {
        guard settings.size.isCluster else { return nil }
        let services = (1...tokenServices).map { "token-service-\($0)" } + (1...dispatchers).map { "dispatcher-\($0)" }
        return try await Network(of: nodes(settings) + databases(settings) + services, list: "\(settings.folder)/namespaces")
    }

    /// Where this program and the simulated Apple are.
    private static func hub(_ network: Network?) -> String { network == nil ? "127.0.0.1" : Network.hub }

    private static func postgresOptions(isSmall: Bool, _ certificates: ServerCertificates?) -> [String] {
        var settings = isSmall ? ["max_wal_size=96MB"] : []
        if let certificates { settings += ["ssl=on", "ssl_cert_file=\(certificates.certificate)", "ssl_key_file=\(certificates.key)"] }
        return settings.flatMap { ["-c", $0] }
    }

    private static func disk(_ kind: FaultKind, _ folder: String, mebibytes: Int, _ settings: RunSettings) async throws -> SmallDisk? {
        guard settings.plannedKinds.contains(kind) else { return nil }
        return try await SmallDisk.mount(at: folder, mebibytes: mebibytes, list: "\(settings.folder)/mounts")
    }

    /// Starts the clients of the servers: first the simulated Apple, then one service after another, because the first one makes the
    /// schema.
    func startServices(_ caller: PushAPI) async throws {
        try simulator.start()
        try await waitUntil("the simulator serves", simulator) {
            await caller.isWell("/healthz", at: simulatorURL)
        }
        for service in services {
            try service.program.start()
            if service.program === tokenServices[0].program { try await waitUntilReady(service, caller) }
        }
        for service in services { try await waitUntilReady(service, caller) }
    }

    private func waitUntilReady(_ service: Service, _ caller: PushAPI) async throws {
        try await waitUntil("\(service.program.name) is ready", service.program) {
            await caller.isWell("/readyz", at: service.url)
        }
    }

    /// Ends everything, whatever state it is in; the simulator late, so that its journal has everything.
    /// - Returns: who did not stop in time when asked politely.
    func stop() async -> [String] {
        var late: [String] = []
        for service in services where !(await service.program.stop()) { late.append(service.program.name) }
        if !(await simulator.stop()) { late.append(simulator.name) }
        for node in brokers { await node.stop() }
        await databases.stop()
        links.stop()
        await network?.remove()
        await brokerDisk?.unmount()
        await postgresDisk?.unmount()
        return late
    }

    private static func simulator(
        _ settings: RunSettings, _ host: String, _ ports: [Int], _ register: ProcessList
    ) throws -> OwnedProgram {
        let credentials = settings.credentialsFolder
        return try OwnedProgram(
            "apns-simulator", ServerCommand(executable: "\(settings.programs)/apns-simulator"),
            environment: [
                "HOST": host,
                "PRODUCTION_PORT": "\(ports[0])", "SANDBOX_PORT": "\(ports[1])", "CONTROL_PORT": "\(ports[2])",
                "PRODUCTION_MANAGEMENT_PORT": "\(ports[3])", "SANDBOX_MANAGEMENT_PORT": "\(ports[4])",
                "TLS_CERTIFICATE_FILE": "\(credentials)/simulator.crt", "TLS_KEY_FILE": "\(credentials)/simulator.key",
                "KEYS_FILE": "\(credentials)/simulator-keys.json", "JOURNAL_FILE": "\(settings.folder)/journal", "JOURNAL_CAPACITY": "1000",
                "STREAMS": "\(RunSettings.streams)", "LOG_LEVEL": "warning",
            ], folder: settings.logFolder, register: register)
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
}
