import Logging
package import Observability

/// The settings of `apns-simulator`.
package enum SimulatorSetting {
    enum Switch: String, CaseIterable {
        case on, off
    }

    static let host = Setting("host", "127.0.0.1", "where all ports listen")
    static let productionPort = Setting(
        "production.port", 2197, in: 0...65_535, "APNs, production; 0 takes any free port, which the log names")
    static let sandboxPort = Setting("sandbox.port", 2198, in: 0...65_535, "APNs, sandbox")
    static let productionManagementPort = Setting(
        "production.management.port", 0, in: 0...65_535, "broadcast channels, production (Apple: 2196); 0 takes any free port")
    static let sandboxManagementPort = Setting(
        "sandbox.management.port", 0, in: 0...65_535, "broadcast channels, sandbox (Apple: 2195); 0 takes any free port")
    static let controlPort = Setting("control.port", 2199, in: 0...65_535, "the control API and the page that shows the devices")
    static let certificateFile = FileSetting(required: "tls.certificate.file", "PEM: the server's certificate and its chain")
    static let keyFile = FileSetting(required: "tls.key.file", isSecret: true, "PEM: the certificate's private key")
    static let keysFile = FileSetting(
        required: "keys.file", "JSON: whose provider tokens are good, see the README of the simulator")
    static let clientCAFile = FileSetting(
        "client.ca.file", "PEM: clients are asked for a certificate, and one by these authorities is as good as provider tokens")
    static let scenario = Setting(
        optional: "scenario", shown: "calm", "what goes wrong from the start, by name: apns-simulator scenarios lists them")
    static let scenarioFile = FileSetting("scenario.file", "the same from a file of your own, instead of a name")
    static let connections = Setting(
        "connections", 10_000, in: APNsSimulatorConfiguration.allowedConnections,
        "connections open at once, on all ports together; one more is closed as soon as it is accepted")
    static let streams = Setting(
        "streams", 1000, in: APNsSimulatorConfiguration.allowedStreams, "MAX_CONCURRENT_STREAMS once a connection is authenticated")
    static let streamGate = Setting("stream.gate", Switch.on, "one stream until a request with a valid token was seen")
    static let streamPenalty = Setting("stream.penalty", Switch.on, "one stream after a 4xx (410 excepted) until a push is accepted")
    static let rejectionLimit = Setting(
        "rejection.limit", 0, in: 0...1_000_000, "so many 4xx in a row (410 excepted) end a connection with GOAWAY; 0 for never")
    static let idleTimeout = Setting.seconds(
        "idle.timeout.seconds", 7200, in: 0...86_400, "a connection that says nothing for so long gets GOAWAY IdleTimeout; 0 for never")
    static let unknownDevices = Setting(
        "unknown.devices", UnknownDevices.accept,
        "pushes to tokens of devices that were never installed: accept, or reject with BadDeviceToken")
    static let requestsPerSecond = Setting(
        "requests.per.second", 0, in: 0...10_000_000, "what the server takes; more are answered 503 ServiceUnavailable; 0 for any number")
    static let broadcastsPerSecond = Setting(
        "broadcasts.per.second", 0, in: 0...1_000_000, "to one channel; more are answered 429 TooManyRequests; 0 for any number")
    static let activityBudgetPerHour = Setting(
        "activity.budget.per.hour", 0, in: 0...1_000_000,
        "updates with priority 10 that a Live Activity shows in an hour; more are accepted and not shown; 0 for any number")
    static let journalCapacity = Setting(
        "journal.capacity", 200_000, in: APNsSimulatorConfiguration.allowedJournalCapacity, "requests that the journal keeps")
    static let journalFile = Setting(
        optional: "journal.file", "every request is written here too; `apns-simulator journal FILE` reads it")
    static let threads = Setting("threads", 1, in: APNsSimulatorConfiguration.allowedThreads, "event loops")
    static let level = Setting("log.level", Logger.Level.info, "lines below it are not logged; debug writes a line per push")

    package static let all: [any DocumentedSetting] = [
        host, productionPort, sandboxPort, productionManagementPort, sandboxManagementPort, controlPort, certificateFile, keyFile,
        keysFile, clientCAFile, scenario, scenarioFile, connections, streams, streamGate, streamPenalty, rejectionLimit, idleTimeout,
        unknownDevices, requestsPerSecond, broadcastsPerSecond, activityBudgetPerHour, journalCapacity, journalFile, threads, level,
    ]

    package static var help: String { all.help + "\n\n" + KeysFile.help }
}
