package import APNs
package import Broker
package import Configuration
import FoundationEssentials
package import Logging
package import Observability
import OpenSSL
package import PushModel
package import RabbitMQ

/// The dispatcher's settings: read and checked once, before any socket opens.
package struct DispatcherSettings: Sendable {
    package var operationsHost: String
    package var operationsPort: Int
    package var broker: RabbitMQConfiguration
    package var brokerPrefix: String
    package var topologyOwnership: Topology.Ownership
    /// ``CoreRules/confirmPatience``, in milliseconds.
    package var confirmPatience: Int
    package var credentialsFile: String
    /// The addresses of APNs that are not Apple's.
    package var endpoints: [EndpointKey: SettingURL] = [:]
    package var apnsAuthorityFile: String?
    package var proxy: APNsProxy?
    package var connections: Int
    package var maximumConnections: Int
    /// Event loops that serve the connections of all pools.
    package var apnsThreads: Int
    package var credentialsCheck: Duration
    /// The lanes that this process serves.
    package var lanes: [Lane]
    package var prefetch: [Lane: Int]
    /// Deliveries of `bulk` that may be in progress together.
    package var bulkDeliveries: Int
    package var maximumAttempts: Int
    /// Names this process in outcomes and in the broker's list of connections.
    package var instance: String
    package var shutdownDeadline: Duration
    package var logLevel: Logger.Level
    package var traces: TraceSettings
    /// ``CoreRules/waitingPatience``. No setting: tests shorten it.
    var waitingPatience = CoreRules.standardWaitingPatience

    /// - Throws: `ConfigurationError`: one sentence that names the environment variable.
    package init(_ config: ConfigReader, logger: Logger) throws(ConfigurationError) {
        operationsHost = try config.read(Self.operationsHost)
        operationsPort = try config.read(Self.operationsPort)
        broker = try Self.broker(config, logger: logger)
        brokerPrefix = try config.read(Self.brokerPrefix)
        topologyOwnership = try config.read(Self.topologyOwnership)
        confirmPatience = try config.read(Self.confirmPatience)
        credentialsFile = try config.read(Self.credentialsFile, logger: logger)
        for (key, setting) in Self.endpoints { endpoints[key] = try config.read(setting) }
        apnsAuthorityFile = try config.read(Self.apnsAuthorityFile, logger: logger)
        proxy = try Self.proxy(config, logger: logger)
        connections = try config.read(Self.connections)
        maximumConnections = try config.read(Self.maximumConnections(from: connections))
        apnsThreads = try config.read(Self.apnsThreads)
        credentialsCheck = try config.read(Self.credentialsCheck)
        lanes = try Self.split(config.read(Self.lanes))
        prefetch = [
            .now: try config.read(Self.prefetchNow), .soon: try config.read(Self.prefetchSoon), .bulk: try config.read(Self.prefetchBulk),
        ]
        bulkDeliveries = try config.read(Self.bulkDeliveries(lanes.contains(.now) ? 800 : 20_000))
        maximumAttempts = try config.read(Self.maximumAttempts)
        instance = try config.read(Self.instance)
        broker.connectionName = "dispatcher \(instance)"
        shutdownDeadline = try config.read(Self.shutdownDeadline)
        logLevel = try Self.logLevel(config)
        traces = try TraceSettings(config, logger: logger)
        try check(brokerPrefix, Self.brokerPrefix)
        try check(instance, Self.instance)
    }

    package static let all =
        ([
            [operationsHost, operationsPort], ofTopology,
            [topologyOwnership, confirmPatience, credentialsFile, credentialsCheck], endpoints.map { $0.setting },
            [apnsAuthorityFile, proxyURL, proxyCredentialsFile, apnsThreads, connections, maximumConnections(), lanes],
            [prefetchNow, prefetchSoon, prefetchBulk, bulkDeliveries(), maximumAttempts, instance, shutdownDeadline, level],
            TraceSettings.all,
        ] as [[any DocumentedSetting]]).flatMap(\.self)

    /// The settings that the definitions of a topology need, and no more.
    package static let ofTopology: [any DocumentedSetting] = [brokerURI, brokerPasswordFile, brokerAuthorityFile, brokerPrefix]

    private static let operationsHost = Setting("operations.host", "127.0.0.1", "where `/healthz`, `/readyz` and `/metrics` are served")
    private static let operationsPort = Setting(
        "operations.port", 9090, in: 0...65_535, "0 takes any free port. At most 256 connections, each idle for at most 60 s")
    static let brokerURI = Setting(
        required: "rabbitmq.url", "an AMQP URI, amqp[s]://user@host:5672,host:5672/vhost",
        "one host or several, each a name or an address; see the guide Three nodes")
    private static let brokerPasswordFile = FileSetting(
        "rabbitmq.password.file", isSecret: true, "its first line replaces the URL's password; read again at every connect")
    private static let brokerAuthorityFile = FileSetting("rabbitmq.ca.file", "PEM authorities; required with `amqps://`")
    private static let plain = "1 to 64 characters of a-z, A-Z, 0-9, -, _ and ."
    static let brokerPrefix = Setting("broker.prefix", "push", values: plain, "first word of every exchange and queue")
    private static let topologyOwnership = Setting(
        "broker.topology", Topology.Ownership.services,
        "`services`: the services declare exchanges and queues; `operators`: they only check that `dispatcher topology` was imported")
    private static let confirmPatience = Setting(
        "broker.confirm.patience.milliseconds", Int(CoreRules.standardConfirmPatience), in: 200...10_000,
        "how long the broker may owe a confirmation before nothing is sent for any app until a marker has made the round of the control "
            + "stream. With the heartbeat (200 ms) and a tick (100 ms) 650 keeps the promise that nothing is sent one second after a "
            + "logout or a cancel. A larger value stops sending less often beside a slow broker, and lengthens that second by as much")
    private static let credentialsFile = FileSetting(
        required: "apns.credentials.file", "which key or certificate serves which apps; see the guide First real iPhone")
    private static let credentialsCheck = Setting.seconds(
        "apns.credentials.check.seconds", 5, in: 1...3600, "how often its files are looked at for changes")
    private static let endpoints = [
        endpoint(
            .production, .device,
            "where pushes go. If a firewall blocks port 443: `https://api.push.apple.com:2197`, Apple's other port; for the sandbox "
                + "`https://api.sandbox.push.apple.com:2197`"),
        endpoint(.sandbox, .device, "the same for the sandbox"),
        endpoint(
            .production, .broadcast, shown: "APNS_PRODUCTION_URL",
            "for broadcasts. Apple's pages also name `https://api-broadcast.push.apple.com`, and for the sandbox "
                + "`https://api-broadcast.sandbox.push.apple.com`"),
        endpoint(.sandbox, .broadcast, shown: "APNS_SANDBOX_URL", "the same for the sandbox"),
        endpoint(
            .production, .channels,
            "for the management of broadcast channels; Apple's is `https://api-manage-broadcast.push.apple.com:2196`"),
        endpoint(
            .sandbox, .channels, "the same for the sandbox; Apple's is `https://api-manage-broadcast.sandbox.push.apple.com:2195`"),
    ]

    private static func endpoint(
        _ environment: APNsEnvironment, _ service: APNsService, shown: String = "Apple's", _ meaning: String
    ) -> (key: EndpointKey, setting: Setting<SettingURL?>) {
        let name = service == .device ? environment.rawValue : "\(environment.rawValue).\(service.rawValue)"
        return (EndpointKey(environment, service), Setting(url: "apns.\(name).url", schemes: ["https"], shown: shown, meaning))
    }

    private static let apnsAuthorityFile = FileSetting(
        "apns.ca.file", shown: "the system's", "PEM authorities that APNs' certificate must come from")
    private static let proxyURL = Setting(
        url: "apns.proxy.url", schemes: ["http"], credentials: proxyCredentialsFile,
        "an HTTP proxy through which APNs is reached (CONNECT); the proxy resolves APNs' names")
    private static let proxyCredentialsFile = FileSetting(
        secret: "apns.proxy.credentials.file", "a file with `user:password` for the proxy; read at start")
    private static let apnsThreads = Setting(
        "apns.threads", ProcessInfo.processInfo.activeProcessorCount, shown: "the number of processors", in: 1...256,
        "threads that serve the connections of all pools; a pool is served by one of them")
    private static let connections = Setting(
        "apns.connections", 2, in: 1...64, "connections that each pool keeps while it is in use")

    private static func maximumConnections(from minimum: Int = 1) -> Setting<Int> {
        Setting(
            "apns.connections.maximum", max(8, minimum), shown: "8, or APNS_CONNECTIONS if that is more", in: minimum...64,
            "connections that a pool may open while its streams are used up; no fewer than `APNS_CONNECTIONS`")
    }

    private static let lanes = Setting(
        "lanes", Lane.allCases.map(\.rawValue).joined(separator: ","), values: "some of now, soon and bulk, with commas between them",
        "the lanes that this process serves; see Two deployments of dispatchers in the guide Install in production")
    private static let prefetchNow = Setting(
        "prefetch.now", 1000, in: 1...5000,
        "messages of the lane, each a job, that may be here unsettled: bounds memory. One app alone has at most half of them at work")
    private static let prefetchSoon = Setting("prefetch.soon", 1000, in: 1...5000, "the same")
    private static let prefetchBulk = Setting("prefetch.bulk", 1000, in: 1...5000, "the same")

    private static func bulkDeliveries(_ standard: Int = 800) -> Setting<Int> {
        Setting(
            "bulk.deliveries", standard, shown: "800; 20000 without now in LANES", in: 1...200_000,
            "deliveries of `bulk` that may be at work together, half of them of an app that is alone. More of them wait longer for one "
                + "another and delay the lane `now`; fewer send fewer a second: with answers after 80 ms, 400 of one app are 5,000 a second"
        )
    }

    private static let maximumAttempts = Setting(
        "maximum.attempts", 10, in: 1...1000, "tries that APNs answered, or left unanswered, before a delivery is given up")
    private static let instance = Setting(
        "instance", defaultInstance, shown: "host and process id", values: plain,
        "names this process in outcomes (`source`) and in the broker's list of connections")
    private static let shutdownDeadline = Setting.seconds(
        "shutdown.deadline.seconds", 20, in: 1...600, "how long a graceful stop may take")
    private static let level = Setting("log.level", Logger.Level.info, "lines below it are not logged")

    /// - Parameter text: `now,soon`.
    private static func split(_ text: String) throws(ConfigurationError) -> [Lane] {
        let names = text.split(separator: ",", omittingEmptySubsequences: false).map { $0.filter { $0 != " " } }
        let lanes = names.compactMap { Lane(rawValue: $0) }
        guard lanes.count == names.count, Set(lanes).count == lanes.count else {
            throw Self.lanes.error(expected: Self.lanes.values, given: text)
        }
        return lanes
    }

    package static func logLevel(_ config: ConfigReader) throws(ConfigurationError) -> Logger.Level { try config.read(level) }

    /// Host and process: different for each of two dispatchers.
    private static var defaultInstance: String {
        let host = ProcessInfo.processInfo.hostName.prefix { $0 != "." }.filter { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-") }
        return "\(host.prefix(40))-\(ProcessInfo.processInfo.processIdentifier)"
    }

    private static func proxy(_ config: ConfigReader, logger: Logger) throws(ConfigurationError) -> APNsProxy? {
        let credentials = try config.read(proxyCredentialsFile, logger: logger)
        guard let url = try config.read(proxyURL) else {
            guard credentials == nil else { throw proxyURL.error(expected: "set where \(proxyCredentialsFile.variable) is") }
            return nil
        }
        let authorization = credentials.map { "Basic " + Data($0.utf8).base64EncodedString() }
        return APNsProxy(host: url.host, port: url.port ?? 80, authorization: authorization)
    }

    /// A text that goes into names and URLs must be plain.
    private func check(_ text: String, _ setting: Setting<String>) throws(ConfigurationError) {
        let isPlain = text.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
            case UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."): true
            default: false
            }
        }
        guard isPlain, (1...64).contains(text.utf8.count) else { throw setting.error(expected: setting.values, given: text) }
    }

    static func broker(_ config: ConfigReader, logger: Logger) throws(ConfigurationError) -> RabbitMQConfiguration {
        let uri = try config.read(brokerURI)
        let passwordFile = try config.read(brokerPasswordFile, logger: logger)
        let authorityFile = try config.read(brokerAuthorityFile, logger: logger)
        do {
            return try RabbitMQConfiguration(uri: uri, passwordFile: passwordFile, authorityFile: authorityFile)
        } catch {
            throw brokerURI.error(expected: "an AMQP URI (\(error.message))")
        }
    }

    /// Broadcasts go where device pushes go, unless they have a setting of their own.
    func endpoint(_ environment: APNsEnvironment, _ service: APNsService = .device) -> APNsEndpoint {
        let trust = apnsAuthorityFile.map(TLSTrust.file) ?? .system
        let fallback = service == .broadcast ? endpoints[EndpointKey(environment, .device)] : nil
        guard let url = endpoints[EndpointKey(environment, service)] ?? fallback else {
            let apple = APNsEndpoint.apple(environment, service)
            return APNsEndpoint(host: apple.host, port: apple.port, tlsName: apple.tlsName, trust: trust)
        }
        return APNsEndpoint(host: url.host, port: url.port ?? 443, trust: trust)
    }
}

/// One service of APNs in one environment.
package struct EndpointKey: Hashable, Sendable {
    let environment: APNsEnvironment
    let service: APNsService

    init(_ environment: APNsEnvironment, _ service: APNsService) {
        self.environment = environment
        self.service = service
    }
}

/// The settings, metrics and log keys of the dispatcher, as `--help`, `/metrics` and the handbook show them.
package enum DispatcherReference {
    package static let settings = DispatcherSettings.all
    package static let metrics =
        PrometheusMetrics.documented { registry in
            let metrics = DispatcherMetrics(registry: registry)
            metrics.observe({ CoreStatus() }, gate: ControlGate())
            metrics.observe({ [] }, { .current })
        } + TraceExporter.documented
    package static let logKeys = DispatcherLogKey.documented

    /// What each reason of APNs means: for the delivery, and for the connection.
    package static var answers: String {
        MarkdownTable(
            "status", "reason", "the delivery", "the connection",
            rows: APNsReason.allCases.map { ($0.rawValue, $0.row) }.sorted { ($0.1.status, $0.0) < ($1.1.status, $1.0) }.map {
                reason, row in
                ["\(row.status)", "`\(reason)`", text(of: Consequence.of(row.effect)), text(of: row.reaction)]
            }
        ).text
    }

    private static func text(of consequence: Consequence) -> String {
        switch consequence {
        case .ends(let outcome): "ends as `\(outcome.rawValue)`"
        case .retries(let cause):
            "is tried again after \(cause.row.waits.map { "\(Int($0))" }.joined(separator: ", ")) s"
                + (cause.row.countsAsAttempt ? "; uses up an attempt" : "")
        case .stops(let outcome): "ends as `\(outcome.rawValue)`; nothing is sent"
        case .sendsSecondCopy: "is sent once more at once"
        case .waits: "waits"
        }
    }

    private static func text(of reaction: APNsConnectionReaction) -> String {
        switch reaction {
        case .keep: "stays"
        case .retire: "is replaced"
        case .replaceForToken: "is replaced; if the next one gets the same answer, the pool pauses"
        case .pausePool: "the pool pauses and probes"
        }
    }
}
