import SystemIO

/// A client's connection and the matching connection to the server.
final class ProxiedPair {
    final class End {
        let socket: TCPSocket
        /// The interest that the poller has; nil: the poller does not know this socket.
        var interest: Poller.Interest?
        /// No more bytes come from it or go to it.
        var isGone = false

        init(_ socket: TCPSocket) { self.socket = socket }
    }

    /// Even: the poller's key of the client's socket. The server's is one more.
    let key: UInt64
    let client: End
    /// Nil if the client's connect vanished like everything else.
    let server: End?
    let toServer: Passage
    let toClient: Passage
    /// False while the server's socket connects.
    var isConnected: Bool
    var hasLostBytes: Bool
    /// Set if the client must speak TLS.
    var watch: TLSWatch?

    init(key: UInt64, client: TCPSocket, server: TCPSocket?, conditions: LinkConditions, opening: FaultProxy.Opening?) {
        watch = opening.map { TLSWatch($0) }
        self.key = key
        self.client = End(client)
        self.server = server.map { End($0) }
        toServer = Passage(conditions.toServer)
        toClient = Passage(conditions.toClient)
        isConnected = server == nil
        hasLostBytes = server == nil
    }

    var ends: [(end: End, key: UInt64, from: Passage, to: Passage)] {
        let client = (client, key, toServer, toClient)
        guard let server else { return [client] }
        return [client, (server, key | 1, toClient, toServer)]
    }

    /// Both sides have ended their streams and got the other's end, or the only side that is left has.
    var hasNothingToSay: Bool {
        if server == nil || server?.isGone == true { return toServer.hasEnded }
        if client.isGone { return toClient.hasEnded }
        return toServer.hasToldEnd && toClient.hasToldEnd
    }

    func set(_ conditions: LinkConditions) {
        toServer.set(conditions.toServer)
        toClient.set(conditions.toClient)
    }

    /// The proxy sends neither side any more bytes and notifies neither.
    func fallSilent() {
        hasLostBytes = true
        set(.blackHole)
    }
}
