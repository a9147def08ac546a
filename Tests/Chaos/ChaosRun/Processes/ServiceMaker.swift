import TestSupport

/// Makes the services of a run ready to be started: their settings, and the links through which they reach the servers.
struct ServiceMaker {
    let settings: RunSettings
    let network: Network?
    let brokers: [BrokerServer]
    let databases: [PostgresServer]
    let certificates: ServerCertificates?
    /// The ports of the simulated Apple: production, sandbox, control, and the channels of both.
    let apns: [Int]
    let clocks: [String: ServiceClock]
    let register: ProcessList

    func tokenService(_ name: String, _ links: inout Links) throws -> Platform.Service {
        let port = try FreePorts.choose(1)[0]
        let host = address(of: name)
        let program = try program(
            name, "token-service",
            [
                "HTTP_HOST": host, "HTTP_PORT": "\(port)", "POSTGRES_URL": try postgresURL(name, &links),
                "BOOTSTRAP_KEY_FILE": "\(settings.folder)/admin.key", "RELAY_LEASE_SECONDS": "\(RunSettings.relayLeaseSeconds)",
            ], &links)
        let clientURL =
            network == nil ? "http://127.0.0.1:\(try links.add("client>\(name)", to: port))" : "http://\(host):\(port)"
        return Platform.Service(
            program: program, machine: network?[name], port: port, url: "http://\(host):\(port)", clientURL: clientURL)
    }

    func dispatcher(_ name: String, _ links: inout Links) throws -> Platform.Service {
        let port = try FreePorts.choose(1)[0]
        let credentials = settings.credentialsFolder
        let host = address(of: name)
        let program = try program(
            name, "dispatcher",
            [
                "OPERATIONS_HOST": host, "OPERATIONS_PORT": "\(port)", "INSTANCE": name,
                "APNS_CREDENTIALS_FILE": "\(credentials)/credentials.json", "APNS_CA_FILE": "\(credentials)/ca.crt",
                "APNS_PRODUCTION_URL": try apnsURL("\(name)>apns-production", apns[0], &links),
                "APNS_SANDBOX_URL": try apnsURL("\(name)>apns-sandbox", apns[1], &links),
                "APNS_PRODUCTION_CHANNELS_URL": "https://\(apnsHost):\(apns[3])",
                "APNS_SANDBOX_CHANNELS_URL": "https://\(apnsHost):\(apns[4])",
                "APNS_CONNECTIONS": "\(RunSettings.connections)", "APNS_CONNECTIONS_MAXIMUM": "\(RunSettings.connections)",
            ], &links)
        let url = "http://\(host):\(port)"
        return Platform.Service(program: program, machine: network?[name], port: port, url: url, clientURL: url)
    }

    private func program(_ name: String, _ executable: String, _ environment: [String: String], _ links: inout Links) throws -> OwnedProgram
    {
        try OwnedProgram(
            name, ServerCommand(executable: "\(settings.firstPrograms)/\(executable)"), on: network?[name],
            environment: environment.merging(["LOG_LEVEL": "notice"]) { own, _ in own }
                .merging(try rabbitMQ(name, &links)) { own, _ in own }.merging(settings.deliberateFault) { own, _ in own }
                .merging(clocks[name]?.environment ?? [:]) { own, _ in own },
            folder: settings.logFolder, register: register)
    }

    private func address(of name: String) -> String { network?[name]?.address ?? "127.0.0.1" }

    private func apnsURL(_ link: String, _ port: Int, _ links: inout Links) throws -> String {
        "https://\(apnsHost):\(network == nil ? try links.add(link, to: port) : port)"
    }

    /// As the simulator's certificate has it.
    private var apnsHost: String { network == nil ? "localhost" : Network.hub }

    private func rabbitMQ(_ name: String, _ links: inout Links) throws -> [String: String] {
        if network != nil { return ["RABBITMQ_URL": BrokerServer.uri(of: brokers)] }
        let broker = brokers[0]
        let opening: FaultProxy.Opening? = broker.clientPort == broker.port ? nil : .record
        return broker.settings(through: try links.add("\(name)>rabbitmq", to: broker.clientPort, opening: opening))
    }

    private func postgresURL(_ name: String, _ links: inout Links) throws -> String {
        var options = "connect_timeout=2"
        var hosts: [String] = []
        for (number, server) in databases.enumerated() {
            if network != nil {
                hosts.append("\(server.address):\(server.port)")
            } else {
                let opening: FaultProxy.Opening? = number == 0 && certificates != nil ? .postgres : nil
                hosts.append("127.0.0.1:\(try links.add("\(name)>\(server.name)", to: server.port, opening: opening))")
            }
        }
        if databases.count > 1 { options += "&target_session_attrs=read-write" }
        if let certificates { options += "&sslmode=verify-full&sslrootcert=\(certificates.authority)" }
        return "postgresql://postgres@\(hosts.joined(separator: ","))/postgres?\(options)"
    }
}
