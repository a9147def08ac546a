package import SystemIO

/// A pool's configuration. The defaults follow Apple's advice and others' observations (docs/apns.md).
package struct APNsPoolConfiguration: Sendable {
    /// The smallest number of connections to keep once more than one request has come, to different addresses if there are several.
    package var connections = 2
    /// How many there may be while streams are used up. Fewer than `connections` count as many.
    package var maximumConnections = 8
    /// How long requests must have waited for full streams before another connection is opened.
    package var growAfter: Duration = .seconds(1)
    /// How long one connection less must have sufficed before one is closed.
    package var shrinkAfter: Duration = .seconds(300)
    /// The time between opening one connection and the next (docs/apns.md, Connections).
    package var stagger: Duration = .milliseconds(500)
    /// The most streams on one connection, even if APNs allows more.
    package var maximumStreams = 1000
    /// Bytes that nghttp2 gets for one connection. 1,000 open streams take about four million.
    package var maximumSessionMemory = 64 << 20
    /// Requests waiting in each lane; more than the caller ever has in one.
    package var maximumQueued = 20_000
    /// The time from handing a request to HTTP/2 to its answer, independent of its batch's expiry.
    package var requestTimeout: Duration = .seconds(15)
    /// Resolving excluded, which the system's resolver bounds.
    package var connectTimeout: Duration = .seconds(5)
    /// The time from TCP's connection to the peer's first SETTINGS.
    package var handshakeTimeout: Duration = .seconds(10)
    /// How long no byte comes from the peer before a PING goes out.
    package var pingAfter: Duration = .seconds(30)
    package var pingTimeout: Duration = .seconds(10)
    /// TCP_USER_TIMEOUT.
    package var unacknowledgedTimeout: Duration = .seconds(20)
    /// How long there is no new batch before the connections are closed until the next one.
    package var idleLimit: Duration = .seconds(3600)
    /// Connections are replaced at this age, less up to a tenth by chance.
    package var maximumAge: Duration = .seconds(24 * 3600)
    /// Stream numbers end at 2^31; a connection is replaced long before.
    package var maximumRequestsPerConnection = 1 << 29
    /// How long no connection can be used before waiting batches are returned, and newcomers at once.
    package var patience: Duration = .seconds(5)
    /// The longest a batch waits for a free stream while connections are usable.
    package var maximumWait: Duration = .seconds(60)
    package var backoffBase: Duration = .seconds(1)
    package var backoffCap: Duration = .seconds(60)
    /// A connection that lived that long, and on which APNs has accepted the credential, is replaced without delay.
    package var stableAge: Duration = .seconds(30)
    /// First pause after a credential fault; doubled with each that follows.
    package var probeBase: Duration = .seconds(30)
    package var probeCap: Duration = .seconds(15 * 60)
    /// First pause after connections got only 5xx: most such outages are short, and a probe is one request.
    package var breakerBase: Duration = .seconds(5)
    /// How long an address that just failed is tried last.
    package var addressAvoidance: Duration = .seconds(60)

    /// Nil: APNs is reached directly.
    package var proxy: APNsProxy?
    package var clock: APNsClock = .system
    /// Asked for each connection: APNs balances through DNS (Apple: Establishing a connection to APNs).
    package var resolve: @Sendable (_ host: String, _ port: Int) throws(ResolveError) -> [SocketAddress] = {
        (host, port) throws(ResolveError) in
        try SocketAddress.resolve(host: host, port: port)
    }

    package init() {}
}
