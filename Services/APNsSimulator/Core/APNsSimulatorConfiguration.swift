import SystemIO

/// All settings of the simulator, checked before a socket opens.
///
/// The defaults suit a test: any free ports, no control API. `apns-simulator` reads its own from the environment, see the README.
package struct APNsSimulatorConfiguration: Sendable {
    /// The address to listen on: a name or literal.
    package var host = "127.0.0.1"
    /// 0 takes any free port; ``APNsSimulator`` has its number.
    package var productionPort = 0
    package var sandboxPort = 0
    /// The port for managing broadcast channels.
    package var productionManagementPort = 0
    package var sandboxManagementPort = 0
    /// nil: no control API.
    package var controlPort: Int?
    /// PEM, the certificate first and its chain after it.
    package var certificateFile: String
    package var keyFile: String
    /// The keys whose provider tokens are good.
    package var keys: [ProviderKey]
    /// PEM: the authority of good client certificates; nil asks for none.
    package var clientCAFile: String?
    /// Open at once, on all ports together. A further one is closed as soon as it is accepted.
    package var connections = 10_000
    /// MAX_CONCURRENT_STREAMS once authenticated.
    package var streams = 1000
    /// One stream until a request with a valid token was seen.
    package var streamGate = true
    /// One stream after a 4xx, until a push is accepted.
    package var streamPenalty = true
    /// This many 4xx in a row, 410 excepted, end a connection with GOAWAY; 0 is never.
    package var rejectionLimit = 0
    /// A connection that receives nothing for this long gets GOAWAY `IdleTimeout` and is closed; about two hours with Apple (docs/apns.md,
    /// Connections). nil: never.
    package var idleTimeout: Duration? = .seconds(7200)
    /// How the end of a connection treats a client that has not read everything yet.
    package var lingering = Lingering()
    package var unknownDevices = UnknownDevices.accept
    /// Requests in a second that the whole simulator takes; more are answered `ServiceUnavailable`. nil: any number.
    package var requestsPerSecond: Int?
    /// Broadcasts in a second to one channel; more are answered `TooManyRequests`. nil: any number.
    package var broadcastsPerSecond: Int?
    /// Updates with priority 10 that one Live Activity shows in an hour; more are accepted and not shown. nil: any number.
    package var activityBudgetPerHour: Int?
    /// Event loops. Connections go to them in turn.
    package var threads = 1
    /// The faults from the start; nil is none.
    package var scenario: Scenario?
    /// Requests that the journal keeps.
    package var journalCapacity = 200_000
    /// The file that gets every request too: see ``JournalFileReader``. Replaced at the start.
    package var journalFile: String?
    /// UNIX milliseconds: decides how old a provider token is. A test may set it.
    package var clock: @Sendable () -> Int64 = { WallClock.milliseconds() }

    package init(certificateFile: String, keyFile: String, keys: [ProviderKey]) {
        self.certificateFile = certificateFile
        self.keyFile = keyFile
        self.keys = keys
    }

    package static let allowedConnections = 1...1_000_000
    package static let allowedStreams = 1...1_000_000
    package static let allowedThreads = 1...64
    package static let allowedJournalCapacity = 1...10_000_000
}
