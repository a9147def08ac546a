import SystemIO

/// A client's connection and the server's that belongs to it.
final class ProxiedPair {
    final class End {
        let socket: TCPSocket
        /// What the poller was told; nil: it does not know this socket.
        var interest: Poller.Interest?
        /// Nothing more comes from it or goes to it.
        var isGone = false

        init(_ socket: TCPSocket) { self.socket = socket }
    }

    /// Even: the poller's key of the client's socket. The server's is one more.
    let key: UInt64
    let client: End
    /// Nil where a client's wish to connect vanished like everything else.
    let server: End?
    let toServer: Passage
    let toClient: Passage
    /// Not while the server's socket is being connected.
    var isConnected: Bool
    var hasLostBytes: Bool
    /// Where the client must speak TLS.
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

    /// Both sides have said that they are done, and were told so of each other; or the only one that is left has.
    var hasNothingToSay: Bool {
        if server == nil || server?.isGone == true { return toServer.hasEnded }
        if client.isGone { return toClient.hasEnded }
        return toServer.hasToldEnd && toClient.hasToldEnd
    }

    func set(_ conditions: LinkConditions) {
        toServer.set(conditions.toServer)
        toClient.set(conditions.toClient)
    }

    /// Neither side hears anything more from here, and neither is told.
    func fallSilent() {
        hasLostBytes = true
        set(.blackHole)
    }
}
