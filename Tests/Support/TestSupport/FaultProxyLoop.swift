import SystemIO

/// The proxy's thread.
final class FaultProxyLoop {
    private static let wakeUpKey: UInt64 = 0
    private static let listenerKey: UInt64 = 1

    private var server: SocketAddress
    private let listener: TCPListener
    private let wakeUp: WakeUp
    private let commands: Mailbox<FaultProxy.Command>
    private let accepted: Signal<Int>
    private let losses: Signal<Int>
    private let traffic: LinkTraffic
    private let opening: FaultProxy.Opening?
    private let poller: Poller
    private var pairs: [UInt64: ProxiedPair] = [:]
    /// Of new connections.
    private var conditions = LinkConditions.forwarding
    private var lastPair: UInt64 = 0
    private var isStopped = false
    private var buffer = [UInt8](repeating: 0, count: 64 << 10)
    private var diary = LinkDiary()
    private var generator: SeededGenerator

    init(
        server: SocketAddress, listener: TCPListener, wakeUp: WakeUp, commands: Mailbox<FaultProxy.Command>, accepted: Signal<Int>,
        losses: Signal<Int>, traffic: LinkTraffic, opening: FaultProxy.Opening?, seed: UInt64
    ) throws {
        self.server = server
        self.listener = listener
        self.wakeUp = wakeUp
        self.commands = commands
        self.accepted = accepted
        self.losses = losses
        self.traffic = traffic
        self.opening = opening
        generator = SeededGenerator(seed: seed)
        poller = try Poller()
        try poller.add(wakeUp.descriptor, key: Self.wakeUpKey, interest: .read)
        try poller.add(listener.descriptor, key: Self.listenerKey, interest: .read)
    }

    func run() throws {
        while true {
            let timeout = diary.next.map { max(.zero, $0 - ContinuousClock.now) }
            for event in try poller.wait(timeout: timeout) {
                if event.key == Self.wakeUpKey { wakeUp.clear() }
                obeyAll()
                switch event.key {
                case Self.wakeUpKey: break
                case Self.listenerKey: try acceptAll()
                default: move(event)
                }
                if isStopped { return end() }
            }
            writeWhatIsDue()
        }
    }

    private func obeyAll() {
        for command in commands.takeAll() { obey(command) }
    }

    private func obey(_ command: FaultProxy.Command) {
        switch command {
        case .set(let next, let connections):
            conditions = next
            guard connections == .all else { return }
            for pair in Array(pairs.values) {
                if pair.hasLostBytes {
                    drop(pair)
                } else {
                    pair.set(next)
                    settle(pair)
                }
            }
        case .cut: for pair in Array(pairs.values) { drop(pair) }
        case .lose(let side): for pair in Array(pairs.values) { lose(side == .client ? pair.client : pair.server, of: pair) }
        case .redirect(let address): server = address
        case .stop: isStopped = true
        }
    }

    private func end() {
        for pair in Array(pairs.values) { drop(pair) }
        listener.close()
    }

    private func acceptAll() throws {
        while let client = try listener.accept() {
            // Conditions that were set before a client connected apply to that client, even if it came while the proxy accepted others.
            obeyAll()
            if isStopped { return }
            if conditions.refusesNew { continue }
            lastPair += 1
            // The server does not learn of a client whose bytes vanish. If the proxy cannot connect to the server, it resets the client.
            let vanishes = conditions.toServer.flow == .vanishing
            let upstream = vanishes ? nil : try? TCPSocket.beginConnecting(to: server)
            let pair = ProxiedPair(key: lastPair << 1, client: client, server: upstream, conditions: conditions, opening: opening)
            pairs[pair.key] = pair
            traffic.note(connections: pairs.count)
            if vanishes || upstream != nil { settle(pair) } else { drop(pair) }
            accepted.send(Int(lastPair))
        }
    }

    private func move(_ event: Poller.Event) {
        guard let pair = pairs[event.key & ~1] else { return }
        let isClient = event.key & 1 == 0
        if !isClient, !pair.isConnected {
            do { try pair.server?.socket.connectionResult() } catch { return drop(pair) }
            pair.isConnected = true
        } else if event.isReadable {
            read(pair, fromClient: isClient)
        }
        if pairs[pair.key] != nil { settle(pair) }
    }

    private func read(_ pair: ProxiedPair, fromClient: Bool) {
        let (source, passage, sink) =
            fromClient ? (pair.client, pair.toServer, pair.server) : (pair.server ?? pair.client, pair.toClient, pair.client)
        guard passage.wantsBytes, !source.isGone else { return }
        do {
            switch try source.socket.read(into: &buffer) {
            case .wouldBlock: break
            case .endOfStream: passage.hasEnded = true
            case .bytes(let count):
                traffic.count(count, fromClient: fromClient)
                if fromClient { watch(pair, count) }
                guard let sink, !sink.isGone else { return }
                if try !passage.take(count, of: buffer, to: sink.socket, drawing: &generator) { haveVanished(from: pair) }
            }
        } catch {
            broken(source, passage, of: pair)
        }
    }

    private func haveVanished(from pair: ProxiedPair) {
        guard !pair.hasLostBytes else { return }
        pair.hasLostBytes = true
        losses.send(Int(pair.key >> 1))
    }

    private func watch(_ pair: ProxiedPair, _ count: Int) {
        guard pair.watch?.isInClear == false else { return }
        pair.watch?.see(buffer[..<count])
        if pair.watch?.isInClear == true { traffic.noteInClear() }
    }

    /// One side was reset. The proxy resets the other too, unless the reset vanishes like everything else.
    private func broken(_ end: ProxiedPair.End, _ passage: Passage, of pair: ProxiedPair) {
        if passage.way.flow == .vanishing { lose(end, of: pair) } else { drop(pair) }
    }
}

extension FaultProxyLoop {
    private func writeWhatIsDue() {
        guard diary.next != nil else { return }
        let now = ContinuousClock.now
        while let entry = diary.take(now: now) {
            guard let pair = pairs[entry.key & ~1] else { continue }
            let passage = entry.key & 1 == 0 ? pair.toServer : pair.toClient
            guard passage.alarm == entry.due else { continue }
            passage.alarm = nil
            settle(pair)
        }
    }

    /// Does all work of a connection that is possible now, and schedules the rest.
    private func settle(_ pair: ProxiedPair) {
        if pair.isConnected {
            let now = ContinuousClock.now
            for (end, key, from, to) in pair.ends where !end.isGone {
                do { try write(to, to: end, of: pair, key: key, now: now) } catch { return broken(end, from, of: pair) }
            }
            if pair.hasNothingToSay { return close(pair) }
        }
        if let ending = pair.toServer.ending ?? pair.toClient.ending, end(pair, ending) { return }
        for (end, key, from, to) in pair.ends where !end.isGone {
            var interest: Poller.Interest = []
            if pair.isConnected {
                if from.wantsBytes { interest.insert(.read) }
                if to.isBlocked { interest.insert(.write) }
            } else if end === pair.server {
                interest = .write
            }
            do { try watch(end, key, interest) } catch { return drop(pair) }
        }
    }

    /// - Parameter key: The key of the end that the proxy writes to. The passage's entry in the diary has the key of the other end.
    private func write(_ passage: Passage, to end: ProxiedPair.End, of pair: ProxiedPair, key: UInt64, now: ContinuousClock.Instant) throws
    {
        if passage.way.flow == .vanishing {
            if passage.discard() || passage.hasEnded { haveVanished(from: pair) }
            return
        }
        switch try passage.flush(to: end.socket, now: now) {
        case .blocked, .halted: break
        case .due(let due):
            if let alarm = passage.alarm, alarm <= due { return }
            passage.alarm = due
            diary.add(due, key ^ 1)
        case .empty:
            guard passage.hasEnded, !passage.hasToldEnd, passage.way.flow == .flowing else { return }
            passage.hasToldEnd = true
            try end.socket.shutdownWriting()
        }
    }

    private func watch(_ end: ProxiedPair.End, _ key: UInt64, _ interest: Poller.Interest) throws {
        guard end.interest ?? [] != interest else { return }
        // Removes a socket without interest from the poller, which would otherwise report the end of its connection again and again.
        if interest.isEmpty {
            try poller.remove(end.socket.descriptor)
            end.interest = nil
        } else if end.interest == nil {
            try poller.add(end.socket.descriptor, key: key, interest: interest)
            end.interest = interest
        } else {
            try poller.modify(end.socket.descriptor, key: key, interest: interest)
            end.interest = interest
        }
    }

    /// - Returns: whether the connection has ended.
    private func end(_ pair: ProxiedPair, _ ending: LinkConditions.Ending) -> Bool {
        switch ending {
        case .reset: drop(pair)
        case .close: close(pair)
        case .silence:
            pair.fallSilent()
            return false
        }
        return true
    }

    /// Resets one side and does not notify the other.
    private func lose(_ end: ProxiedPair.End?, of pair: ProxiedPair) {
        if let end, !end.isGone { leave(end, reset: true) }
        pair.fallSilent()
        if pair.ends.allSatisfy(\.end.isGone) { forget(pair) } else { settle(pair) }
    }

    /// Resets both sides.
    private func drop(_ pair: ProxiedPair) { leave(pair, reset: true) }

    private func close(_ pair: ProxiedPair) { leave(pair, reset: false) }

    private func leave(_ pair: ProxiedPair, reset: Bool) {
        for (end, _, _, _) in pair.ends where !end.isGone { leave(end, reset: reset) }
        forget(pair)
    }

    private func leave(_ end: ProxiedPair.End, reset: Bool) {
        // The peer may have gone already. Then there is nothing left to reset.
        if end.interest != nil { try? poller.remove(end.socket.descriptor) }
        if reset { try? end.socket.resetOnClose() }
        end.socket.close()
        end.interest = nil
        end.isGone = true
    }

    private func forget(_ pair: ProxiedPair) {
        pairs[pair.key] = nil
        traffic.note(connections: pairs.count)
    }
}
