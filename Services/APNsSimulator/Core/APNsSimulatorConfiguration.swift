import SystemIO

/// Everything the simulator can be told, checked before a socket opens.
///
/// The defaults suit a test: any free ports, no control API. `apns-simulator` reads its own from the environment, see the README.
package struct APNsSimulatorConfiguration: Sendable {
    /// Where to listen: a name or literal.
    package var host = "127.0.0.1"
    /// 0 takes any free port; ``APNsSimulator`` says which.
    package var productionPort = 0
    package var sandboxPort = 0
    /// Where broadcast channels are managed.
    package var productionManagementPort = 0
    package var sandboxManagementPort = 0
    /// nil: no control API.
    package var controlPort: Int?
    /// PEM, the certificate first and its chain after it.
    package var certificateFile: String
    package var keyFile: String
    /// Whose provider tokens are good.
    package var keys: [ProviderKey]
    /// PEM: whose client certificates are good; nil asks for none.
    package var clientCAFile: String?
    /// Open at once, on all ports together. One more is closed as soon as it is accepted.
    package var connections = 10_000
    /// MAX_CONCURRENT_STREAMS once authenticated.
    package var streams = 1000
    /// One stream until a request with a valid token was seen.
    package var streamGate = true
    /// One stream after a 4xx, until a push is accepted.
    package var streamPenalty = true
    /// So many 4xx in a row, 410 excepted, end a connection with GOAWAY; 0 is never.
    package var rejectionLimit = 0
    /// A connection over which nothing came for so long is told GOAWAY `IdleTimeout` and closed; about two hours with Apple
    /// (docs/apns.md, Connections). nil: never.
    package var idleTimeout: Duration? = .seconds(7200)
    /// What the end of a connection does for a client that has not read all yet.
    package var lingering = Lingering()
    package var unknownDevices = UnknownDevices.accept
    /// Requests in a second that the whole simulator takes; more are answered `ServiceUnavailable`. nil: any number.
    package var requestsPerSecond: Int?
    /// Event loops. Connections are dealt out in turn.
    package var threads = 1
    /// What goes wrong from the start; nil is nothing.
    package var scenario: Scenario?
    /// Requests that the journal keeps.
    package var journalCapacity = 200_000
    /// Where every request is written too, for ever: see ``JournalFileReader``. Replaced at the start.
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
