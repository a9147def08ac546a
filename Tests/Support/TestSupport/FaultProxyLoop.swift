import SystemIO

/// The proxy's thread.
final class FaultProxyLoop {
    private static let wakeUpKey: UInt64 = 0
    private static let listenerKey: UInt64 = 1

    private let server: SocketAddress
    private let listener: TCPListener
    private let wakeUp: WakeUp
    private let commands: Mailbox<FaultProxy.Command>
    private let accepted: Signal<Int>
    private let clientBytes: ByteCount
    private let poller: Poller
    private var pairs: [UInt64: ProxiedPair] = [:]
    private var mode = FaultProxy.Mode.forwarding
    private var lastPair: UInt64 = 0
    private var buffer = [UInt8](repeating: 0, count: 64 << 10)

    init(
        server: SocketAddress, listener: TCPListener, wakeUp: WakeUp, commands: Mailbox<FaultProxy.Command>, accepted: Signal<Int>,
        clientBytes: ByteCount
    ) throws {
        self.server = server
        self.listener = listener
        self.wakeUp = wakeUp
        self.commands = commands
        self.accepted = accepted
        self.clientBytes = clientBytes
        poller = try Poller()
        try poller.add(wakeUp.descriptor, key: Self.wakeUpKey, interest: .read)
        try poller.add(listener.descriptor, key: Self.listenerKey, interest: .read)
    }

    func run() throws {
        while true {
            for event in try poller.wait(timeout: nil) {
                switch event.key {
                case Self.wakeUpKey:
                    wakeUp.clear()
                    for command in commands.takeAll() {
                        if case .stop = command { return end() }
                        try obey(command)
                    }
                case Self.listenerKey: try acceptAll()
                default: move(event)
                }
            }
        }
    }

    private func obey(_ command: FaultProxy.Command) throws {
        switch command {
        case .mode(let next):
            mode = next
            for (key, pair) in pairs {
                if pair.hasLostBytes { drop(key) } else { setInterest(pair) }
            }
        case .cut: for key in pairs.keys { drop(key) }
        case .stop: break
        }
    }

    private func end() {
        for key in pairs.keys { drop(key) }
        listener.close()
    }

    private func acceptAll() throws {
        while let client = try listener.accept() {
            if mode == .refusing { continue }
            guard let upstream = try? TCPSocket.connect(to: server, timeout: .seconds(2)) else { continue }
            lastPair += 1
            let pair = ProxiedPair(key: lastPair << 1, client: client, server: upstream)
            try poller.add(client.descriptor, key: pair.key, interest: [])
            try poller.add(upstream.descriptor, key: pair.key | 1, interest: [])
            pairs[pair.key] = pair
            setInterest(pair)
            accepted.send(Int(lastPair))
        }
    }

    /// Resets both sides.
    private func drop(_ key: UInt64) {
        guard let pair = pairs.removeValue(forKey: key) else { return }
        for side in [pair.client, pair.server] {
            // The peer may have gone already: then there is nothing left to reset.
            try? poller.remove(side.socket.descriptor)
            try? side.socket.resetOnClose()
            side.socket.close()
        }
    }

    private func setInterest(_ pair: ProxiedPair) {
        for (side, key) in [(pair.client, pair.key), (pair.server, pair.key | 1)] {
            let other = side === pair.client ? pair.server : pair.client
            var interest: Poller.Interest = []
            if mode != .paused {
                if other.unsent.isEmpty { interest.insert(.read) }
                if !side.unsent.isEmpty { interest.insert(.write) }
            }
            do { try poller.modify(side.socket.descriptor, key: key, interest: interest) } catch { return drop(pair.key) }
        }
    }

    private func move(_ event: Poller.Event) {
        guard let pair = pairs[event.key & ~1] else { return }
        let isClient = event.key & 1 == 0
        let (side, other) = isClient ? (pair.client, pair.server) : (pair.server, pair.client)
        do {
            if mode != .paused {
                if event.isWritable { try side.flush() }
                if event.isReadable, other.unsent.isEmpty {
                    try read(side, other, pair, vanishes: mode == .blackHole || (!isClient && mode == .deafClient))
                }
            }
            if event.isHangUp { return drop(pair.key) }
        } catch {
            return drop(pair.key)
        }
        setInterest(pair)
    }

    private func read(_ side: ProxiedPair.Side, _ other: ProxiedPair.Side, _ pair: ProxiedPair, vanishes: Bool) throws {
        guard case .bytes(let count) = try side.socket.read(into: &buffer) else { throw PeerLeft() }
        if side === pair.client { clientBytes.add(count) }
        if vanishes {
            pair.hasLostBytes = true
        } else {
            other.unsent = buffer[..<count]
            try other.flush()
        }
    }
}

private struct PeerLeft: Error {}

final class ProxiedPair {
    final class Side {
        let socket: TCPSocket
        /// What the other side sent and this one has not taken yet.
        var unsent: ArraySlice<UInt8> = []

        init(_ socket: TCPSocket) { self.socket = socket }

        func flush() throws {
            while !unsent.isEmpty {
                let bytes = unsent
                guard case .bytes(let count) = try socket.write(bytes.span) else { return }
                unsent = unsent.dropFirst(count)
            }
        }
    }

    let key: UInt64
    let client: Side
    let server: Side
    var hasLostBytes = false

    init(key: UInt64, client: TCPSocket, server: TCPSocket) {
        self.key = key
        self.client = Side(client)
        self.server = Side(server)
    }
}
