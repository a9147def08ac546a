package import Configuration
import Observability

/// The load that callers may put on this process at once. Read with the other settings.
package struct RequestLimits: Equatable, Sendable {
    /// Of one key, unless the key has a limit of its own; 0 for none.
    package var requestsPerSecondPerKey: Int
    /// Requests in progress, the operations routes aside.
    package var concurrentRequests: Int
    /// Of one key, whether they are in progress or their body is still to come.
    package var concurrentRequestsPerKey: Int
    /// Of all keys and devices of one app together, counted alike.
    package var concurrentRequestsPerApp: Int
    /// Not part of ``concurrentRequests``: answers that are written while they are worked on.
    package var concurrentStreams: Int
    /// Part of ``concurrentRequests``: bodies of up to 32 MiB, each in memory as a whole.
    package var concurrentUploads: Int
    /// Bodies of more than 64 KiB, uploads aside, that are in memory at once.
    package var bodyBytes: Int
    package var connections: Int
    /// A body of up to 64 KiB must arrive within this; of a longer one, each 64 KiB.
    package var bodyTimeout: Duration
    /// For the head of a request, and between two requests.
    package var idleTimeout: Duration

    package init(_ config: ConfigReader) throws {
        requestsPerSecondPerKey = try config.integer("http.requestsPerSecondPerKey", default: 20_000, in: 0...1_000_000)
        concurrentRequests = try config.integer("http.maxConcurrentRequests", default: 500, in: 1...100_000)
        // Four apps at their limit leave places for the others, and so does one key of an app.
        concurrentRequestsPerKey = try config.integer(
            "http.maxConcurrentRequestsPerKey", default: max(1, concurrentRequests / 10), in: 1...100_000)
        concurrentRequestsPerApp = try config.integer(
            "http.maxConcurrentRequestsPerApp", default: max(1, concurrentRequests / 5), in: 1...100_000)
        concurrentStreams = try config.integer("http.maxConcurrentStreams", default: 16, in: 1...10_000)
        concurrentUploads = try config.integer("http.maxConcurrentUploads", default: 4, in: 1...1000)
        bodyBytes = try config.integer("http.maxBodyMib", default: 32, in: 8...65_536) << 20
        connections = try config.integer("http.maxConnections", default: 1000, in: 1...100_000)
        bodyTimeout = try config.seconds("http.bodyTimeoutSeconds", default: 30, in: 1...3600)
        idleTimeout = try config.seconds("http.idleTimeoutSeconds", default: 60, in: 1...3600)
    }

    /// The share of one key, and of one app, of the streams, of the uploads, and of the bytes of bodies, of which the largest batch fits.
    static func share(of amount: Int) -> Int { max(1, amount / 2) }

    // The limits of a request's head: bytes of a field, bytes of all fields, and the number of fields. Beyond them, 431 and the connection
    // is closed. Room for every header that this API reads.
    static let headerFieldBytes = 8 * 1024
    static let headerListBytes = 16 * 1024
    static let headerFields = 100
}

extension APIError {
    static let headersTooLarge = APIError(
        .headersTooLarge,
        """
        a request may have \(RequestLimits.headerFields) header fields of \(RequestLimits.headerFieldBytes) bytes, all together \
        \(RequestLimits.headerListBytes) bytes
        """)
}
