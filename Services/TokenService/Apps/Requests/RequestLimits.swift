package import Configuration
package import Observability
package import TokenServiceKit

/// The load that callers may put on this process at once. Read with the other settings.
package struct RequestLimits: Equatable, Sendable {
    package var requestsPerSecondPerKey: Int
    /// Requests in progress, the operations routes aside.
    package var concurrentRequests: Int
    package var concurrentRequestsPerKey: Int
    package var concurrentRequestsPerApp: Int
    /// How many answers may be written while they are worked on; these are not part of ``concurrentRequests``.
    package var concurrentStreams: Int
    /// Part of ``concurrentRequests``: bodies of up to 32 MiB, each in memory as a whole.
    package var concurrentUploads: Int
    /// Bodies of more than 64 KiB, uploads aside, that are in memory at once.
    package var bodyBytes: Int
    package var connections: Int
    package var bodyTimeout: Duration
    package var idleTimeout: Duration

    package init(_ config: ConfigReader) throws {
        requestsPerSecondPerKey = try config.read(Self.requestsPerSecondPerKey)
        concurrentRequests = try config.read(Self.concurrentRequests)
        concurrentRequestsPerKey = try config.read(Self.concurrentRequestsPerKey(of: concurrentRequests))
        concurrentRequestsPerApp = try config.read(Self.concurrentRequestsPerApp(of: concurrentRequests))
        concurrentStreams = try config.read(Self.concurrentStreams)
        concurrentUploads = try config.read(Self.concurrentUploads)
        bodyBytes = try config.read(Self.bodyMebibytes) << 20
        connections = try config.read(Self.connections)
        bodyTimeout = try config.read(Self.bodyTimeout)
        idleTimeout = try config.read(Self.idleTimeout)
    }

    package static let all: [any DocumentedSetting] = [
        connections, concurrentRequests, concurrentRequestsPerKey(), concurrentRequestsPerApp(), concurrentStreams, concurrentUploads,
        bodyMebibytes, requestsPerSecondPerKey, bodyTimeout, idleTimeout,
    ]

    private static let connections = Setting(
        "http.max.connections", 1000, in: 1...100_000, "open connections; keep the hard limit of open files (`ulimit -Hn`) 100 above it")
    private static let standardRequests = 500
    private static let concurrentRequests = Setting(
        "http.max.concurrent.requests", standardRequests, in: 1...100_000,
        """
        worked on at once before 503; a request counts once its body is there, and until the client has taken an answer of more than 64 KiB
        """
    )

    /// Four apps at their limit leave places for the others, and so does one key of an app.
    private static func concurrentRequestsPerKey(of all: Int = standardRequests) -> Setting<Int> {
        Setting(
            "http.max.concurrent.requests.per.key", max(1, all / 10), in: 1...100_000,
            "of one key, those included whose body is still to come, before 429 for that key alone; by itself a tenth of "
                + "`HTTP_MAX_CONCURRENT_REQUESTS`; a device has three")
    }

    private static func concurrentRequestsPerApp(of all: Int = standardRequests) -> Setting<Int> {
        Setting(
            "http.max.concurrent.requests.per.app", max(1, all / 5), in: 1...100_000,
            "of all keys and devices of one app, counted alike, before 429 for that app alone; by itself a fifth of "
                + "`HTTP_MAX_CONCURRENT_REQUESTS`")
    }

    private static let concurrentStreams = Setting(
        "http.max.concurrent.streams", 16, in: 1...10_000,
        "imports and exports under way before 503, half of them by one app; each holds up to two chunks (1 MiB each) or a page in memory")
    private static let concurrentUploads = Setting(
        "http.max.concurrent.uploads", 4, in: 1...1000,
        "long lists under way before 503, half of them by one app; each of the longest names takes about 140 MiB of memory")
    private static let bodyMebibytes = Setting(
        "http.max.body.mib", 32, in: 8...65_536,
        "MiB of bodies above 64 KiB, uploads aside, in memory at once before 503, half of them by one app; they take several times that "
            + "while they are parsed")
    private static let requestsPerSecondPerKey = Setting(
        "http.requests.per.second.per.key", 20_000, in: 0...1_000_000,
        "in each process, 0 for no limit; high, so that it stops only what has run away: give keys a lower one of their own")
    private static let bodyTimeout = Setting.seconds("http.body.timeout.seconds", 30, in: 1...3600, "for a body or 64 KiB of it")
    private static let idleTimeout = Setting.seconds(
        "http.idle.timeout.seconds", 60, in: 1...3600, "for a request's head and between requests; longer than a load balancer's own")

    /// The share of one key, and of one app, of the streams, of the uploads, and of the bytes of bodies, of which the largest batch fits.
    package static func share(of amount: Int) -> Int { max(1, amount / 2) }

    // The limits of a request's head: bytes of a field, bytes of all fields, and the number of fields. Beyond them, 431 and the connection
    // is closed. Room for every header that this API reads.
    package static let headerFieldBytes = 8 * 1024
    package static let headerListBytes = 16 * 1024
    package static let headerFields = 100
}

extension APIError {
    package static let headersTooLarge = APIError(
        .headersTooLarge,
        """
        a request may have \(RequestLimits.headerFields) header fields of \(RequestLimits.headerFieldBytes) bytes, all together \
        \(RequestLimits.headerListBytes) bytes
        """)
}
