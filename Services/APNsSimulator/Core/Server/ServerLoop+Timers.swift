import SystemIO

/// A loop's due tasks.
extension ServerLoop {
    func schedule(_ task: LoopTimers.Task, at due: ContinuousClock.Instant) {
        timers.schedule(task, at: due) { connections[$0] != nil || lingering[$0] != nil }
    }

    func runTimers() {
        guard !timers.isEmpty else { return }
        let now = ContinuousClock.now
        while let task = timers.popDue(at: now) { run(task, now) }
    }

    private func run(_ task: LoopTimers.Task, _ now: ContinuousClock.Instant) {
        switch task {
        case .act(let number, let stream):
            guard let connection = connections[number] else { return }
            connection.act(stream)
            connection.flush(&scratch)
            settle(connection)
        case .release(let number):
            if let socket = lingering[number] {
                socket.output.noteRelease()
                return proceed(socket, number)
            }
            guard let connection = connections[number] else { return }
            connection.output.noteRelease()
            connection.flush(&scratch)
            settle(connection)
        case .handshakeDeadline(let number):
            if let connection = connections[number], !connection.isEstablished { close(connection) }
        case .endOfLingering(let number):
            if let socket = lingering[number] { end(socket, number) }
        case .idleSweep: sweepIdle(now)
        case .resumeHandshake(let number):
            guard let connection = connections[number] else { return }
            connection.resumeHandshake()
            connection.flush(&scratch)
            settle(connection)
            schedule(.handshakeDeadline(connection: number), at: now + Self.handshakeTime)
        case .scenarioEvent(let run, let index): strike(run, index)
        case .endOfPatience: break
        case .resumeAccepting:
            do throws(SystemError) { try listeners.resume(poller) } catch { schedule(task, at: now + Self.acceptingPause) }
        }
    }

    // MARK: Idle connections

    /// Schedules a sweep while there are connections.
    func scheduleSweep() {
        guard let timeout = service.configuration.idleTimeout, !isSweepScheduled else { return }
        isSweepScheduled = true
        schedule(.idleSweep, at: .now + timeout)
    }

    /// Sends GOAWAY over idle connections, and schedules the next sweep for when one may be due.
    private func sweepIdle(_ now: ContinuousClock.Instant) {
        isSweepScheduled = false
        guard let timeout = service.configuration.idleTimeout else { return }
        for connection in connections.values where connection.idleDeadline(timeout) <= now { endIdle(connection, now) }
        guard let next = connections.values.lazy.map({ $0.idleDeadline(timeout) }).min() else { return }
        isSweepScheduled = true
        // A sweep checks all of them, so not one for each.
        schedule(.idleSweep, at: max(next, now + timeout / 100))
    }

    private func endIdle(_ connection: ServerConnection, _ now: ContinuousClock.Instant) {
        // A stream without an answer, or a peer that has vanished, keeps it open.
        guard connection.idleSince == nil else { return close(connection) }
        connection.idleSince = now
        connection.goAway(lastStream: nil, code: 0, debug: Answer(.idleTimeout).body ?? [])
        connection.flush(&scratch)
        settle(connection)
    }
}
