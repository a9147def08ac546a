package import APNs
package import Broker
package import Configuration
import FoundationEssentials
package import Logging
package import Observability
import OpenSSL
package import PushModel
package import RabbitMQ

/// The dispatcher's settings: read and checked once, before any socket opens. ``DispatcherReference/settings`` describes them.
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
    package var endpoints: [EndpointKey: SettingURL]
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
        operationsHost = config.text("operations.host", default: "127.0.0.1")
        operationsPort = try config.integer("operations.port", default: 9090, in: 0...65_535)
        broker = try Self.broker(config, logger: logger)
        brokerPrefix = config.text("broker.prefix", default: "push")
        topologyOwnership = try config.choice("broker.topology", default: .services)
        confirmPatience = try config.integer(
            "broker.confirm.patience.milliseconds", default: Int(CoreRules.standardConfirmPatience), in: 200...10_000)
        credentialsFile = try config.file("apns.credentials.file", logger: logger)
        endpoints = try Self.endpoints(config)
        apnsAuthorityFile = try config.optionalFile("apns.ca.file", logger: logger)
        proxy = try Self.proxy(config, logger: logger)
        connections = try config.integer("apns.connections", default: 2, in: 1...64)
        maximumConnections = try config.integer("apns.connections.maximum", default: max(8, connections), in: connections...64)
        apnsThreads = try config.integer("apns.threads", default: ProcessInfo.processInfo.activeProcessorCount, in: 1...256)
        credentialsCheck = try config.seconds("apns.credentials.check.seconds", default: 5, in: 1...3600)
        lanes = try Self.lanes(config.optionalText("lanes"))
        prefetch = [
            .now: try config.integer("prefetch.now", default: 1000, in: 1...5000),
            .soon: try config.integer("prefetch.soon", default: 1000, in: 1...5000),
            .bulk: try config.integer("prefetch.bulk", default: 1000, in: 1...5000),
        ]
        bulkDeliveries = try config.integer("bulk.deliveries", default: lanes.contains(.now) ? 800 : 20_000, in: 1...200_000)
        maximumAttempts = try config.integer("maximum.attempts", default: 10, in: 1...1000)
        instance = config.text("instance", default: Self.defaultInstance)
        broker.connectionName = "dispatcher \(instance)"
        shutdownDeadline = try config.seconds("shutdown.deadline.seconds", default: 20, in: 1...600)
        logLevel = try Self.logLevel(config)
        traces = try TraceSettings(config, logger: logger)
        try check(brokerPrefix, "broker.prefix", "1 to 64 characters of a-z, A-Z, 0-9, -, _ and .")
        try check(instance, "instance", "1 to 64 characters of a-z, A-Z, 0-9, -, _ and .")
    }

    /// - Parameter text: `now,soon`. Nil: every lane.
    private static func lanes(_ text: String?) throws(ConfigurationError) -> [Lane] {
        guard let text else { return Lane.allCases }
        let names = text.split(separator: ",", omittingEmptySubsequences: false).map { $0.filter { $0 != " " } }
        let lanes = names.compactMap { Lane(rawValue: $0) }
        guard lanes.count == names.count, Set(lanes).count == lanes.count else {
            throw ConfigurationError("lanes", expected: "some of now, soon and bulk, with commas between them", given: text)
        }
        return lanes
    }

    package static func logLevel(_ config: ConfigReader) throws(ConfigurationError) -> Logger.Level {
        try config.choice("log.level", default: .info)
    }

    /// Host and process: different for each of two dispatchers.
    private static var defaultInstance: String {
        let host = ProcessInfo.processInfo.hostName.prefix { $0 != "." }.filter { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-") }
        return "\(host.prefix(40))-\(ProcessInfo.processInfo.processIdentifier)"
    }

    private static func endpoints(_ config: ConfigReader) throws(ConfigurationError) -> [EndpointKey: SettingURL] {
        var endpoints: [EndpointKey: SettingURL] = [:]
        for environment in APNsEnvironment.allCases {
            for service in APNsService.allCases {
                let key = EndpointKey(environment, service)
                if config.optionalText(key.setting) != nil { endpoints[key] = try config.url(key.setting, schemes: ["https"]) }
            }
        }
        return endpoints
    }

    private static func proxy(_ config: ConfigReader, logger: Logger) throws(ConfigurationError) -> APNsProxy? {
        let credentials = try config.optionalSecretFile("apns.proxy.credentials.file", logger: logger)
        guard config.optionalText("apns.proxy.url") != nil else {
            guard credentials == nil else {
                throw ConfigurationError("apns.proxy.url", expected: "set where APNS_PROXY_CREDENTIALS_FILE is")
            }
            return nil
        }
        let url = try config.url("apns.proxy.url", schemes: ["http"], credentials: "apns.proxy.credentials.file")
        let authorization = credentials.map { "Basic " + Data($0.utf8).base64EncodedString() }
        return APNsProxy(host: url.host, port: url.port ?? 80, authorization: authorization)
    }

    /// A text that goes into names and URLs must be plain.
    private func check(_ text: String, _ key: String, _ expected: String) throws(ConfigurationError) {
        let isPlain = text.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "0")...UInt8(ascii: "9"): true
            case UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."): true
            default: false
            }
        }
        guard isPlain, (1...64).contains(text.utf8.count) else { throw ConfigurationError(key, expected: expected, given: text) }
    }

    static func broker(_ config: ConfigReader, logger: Logger) throws(ConfigurationError) -> RabbitMQConfiguration {
        let uri = try config.text("rabbitmq.url", "an AMQP URI, amqp[s]://user@host:5672,host:5672/vhost", isSecret: true)
        let passwordFile = try config.optionalFile("rabbitmq.password.file", logger: logger, isSecret: true)
        let authorityFile = try config.optionalFile("rabbitmq.ca.file", logger: logger)
        do {
            return try RabbitMQConfiguration(uri: uri, passwordFile: passwordFile, authorityFile: authorityFile)
        } catch {
            throw ConfigurationError("rabbitmq.url", expected: "an AMQP URI (\(error.message))")
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

    /// The name of the setting with its address.
    var setting: String {
        switch service {
        case .device: "apns.\(environment.rawValue).url"
        case .broadcast, .channels: "apns.\(environment.rawValue).\(service.rawValue).url"
        }
    }
}
