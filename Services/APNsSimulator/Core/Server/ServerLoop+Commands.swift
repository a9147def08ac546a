import HTTP2

/// A loop's commands, from outside and from its scenario.
extension ServerLoop {
    // MARK: Commands

    func obey(_ command: LoopCommand) {
        switch command {
        case .adopt(let socket, let port): adopt(socket, port)
        case .goAway(let selection, let lastStream, let code, let debug):
            forEach(selection) { $0.goAway(lastStream: lastStream, code: code, debug: debug) }
        case .setStreams(let selection, let streams): forEach(selection) { $0.setStreams(streams) }
        case .setSilent(let selection, let isSilent): forEach(selection) { $0.setSilent(isSilent) }
        case .close(let selection, let abruptly): forEach(selection) { $0.close(abruptly: abruptly) }
        case .begin(let run): begin(run)
        case .leave:
            isLeaving = true
            forEach(.all) { $0.leave() }
        case .stop:
            end = isLeaving ? .now + Self.patience : .now
            schedule(.endOfPatience, at: end ?? .now)
        }
    }

    // MARK: Scenario

    func begin(_ run: ScenarioRun) {
        // A loop that has just begun may have found it already.
        guard run !== scenario else { return }
        timers.dropEvents(of: scenario)
        scenario = run
        let now = service.configuration.clock()
        for connection in connections.values.sorted(by: { $0.number < $1.number }) {
            connection.begin(run.admit(connection.environment, now: now, isNew: false))
            connection.flush(&scratch)
            settle(connection)
        }
        for (index, event) in run.scenario.events.enumerated() {
            schedule(.scenarioEvent(run, index), at: .now + .milliseconds(event.at))
        }
    }

    /// The moment of an event: no effect if another scenario has replaced it.
    func strike(_ run: ScenarioRun, _ index: Int) {
        guard run === scenario else { return }
        let event = run.scenario.events[index]
        if let every = event.every { schedule(.scenarioEvent(run, index), at: .now + .milliseconds(every)) }
        // Every loop applies it to its own connections; one of them counts.
        if !listeners.isEmpty { run.noteStrike(run.eventIndex(index)) }
        forEach(event.environment.map { .environment($0) } ?? .all) { connection in
            do throws(HTTP2Error) {
                try connection.apply(event.effect, causedBy: nil)
            } catch {
                connection.end()
            }
        }
    }

    private func forEach(_ selection: APNsSimulator.Selection, _ body: (ServerConnection) -> Void) {
        for connection in connections.values where connection.isMeant(by: selection) {
            body(connection)
            connection.flush(&scratch)
            settle(connection)
        }
    }
}
