import ChaosLedger

/// The resources of processes, and the sums at the end.
extension Checker {
    mutating func judge(_ sample: SampleRecord) {
        series.note(sample)
        if case .flood(let flood) = sample { note(flood) }
        if case .wire(let wire) = sample { judge(wire) }
        if case .table(let table) = sample { tables.note(table) }
        guard case .process(let process) = sample else { return }
        let figures = verdict.figures
        verdict.figures.memory[process.name] = max(figures.memory[process.name] ?? 0, process.memory)
        verdict.figures.descriptors[process.name] = max(figures.descriptors[process.name] ?? 0, process.descriptors)
        verdict.figures.threads[process.name] = max(figures.threads[process.name] ?? 0, process.threads)
        guard let limit = run.memory.first(where: { process.name.hasPrefix($0.process) }) else { return }
        growth.note(process)
        guard process.memory > limit.bytes else { return }
        verdict.find(
            .memory,
            "\(process.name) (process \(process.id)) had \(process.memory >> 20) MiB at \(at(process.at)), above \(limit.bytes >> 20) MiB")
    }

    private mutating func judge(_ wire: SampleRecord.Wire) {
        verdict.notJudged.remove(.inClear)
        guard wire.inClear > 0 else { return }
        verdict.find(.inClear, "\(wire.name): on \(wire.inClear) of \(wire.connections) connections")
    }

    private mutating func judgeStandstills() {
        verdict.figures.longestWithoutAcceptance = standstill.longestWithoutAcceptance
        for standstill in standstill.standstills() {
            let from = max(standstill.lowerBound, faults.endOfAlarm(before: standstill.upperBound))
            let lasted = standstill.upperBound - from
            verdict.figures.longestStandstill = max(verdict.figures.longestStandstill, lasted)
            guard let limit = run.resumeWithin, lasted > limit else { continue }
            verdict.find(
                .standstill,
                "nothing was sent from \(at(from)) to \(at(standstill.upperBound)); \(faults.names(in: from...standstill.upperBound))")
        }
    }

    private mutating func judgeDelays() {
        guard let limit = run.resumeWithin else { return }
        for delay in delays.delays(longerThan: limit) {
            verdict.figures.longestDelay = max(verdict.figures.longestDelay, delay.longest.lasted)
            guard delay.isTooLong else { continue }
            let longest = delay.longest
            verdict.find(
                .standstill,
                """
                \(delay.count) notifications waited longer than \(limit / 1_000_000) s though nothing that they need stood still, request \
                \(longest.request) from \(at(longest.from)) to \(at(longest.from + longest.lasted)); \(delay.fault.name)
                """)
        }
    }

    mutating func conclude() {
        // A job that is in no queue can never be done.
        if series.queued == 0 { for name in waiting { verdict.find(.lost, "\(name): no push, no outcome, and no job in any queue") } }
        for evidence in epochsGoneBack() { verdict.find(.ownership, evidence) }
        judgeStandstills()
        judgeDelays()
        verdict.figures.connectionsPeak = connectionsPerSecond.values.max() ?? 0
        verdict.figures.seconds = Double((run.drainedAt ?? run.endedAt ?? run.beganAt) - run.beganAt) / 1_000_000
        if let grown = growth.findings() {
            for evidence in grown { verdict.find(.growth, evidence) }
        } else {
            verdict.notJudged.insert(.growth)
        }
        if let grown = tables.findings(emptyAtRest: run.emptyAtRest, since: run.drainedAt) {
            for evidence in grown { verdict.find(.tables, evidence) }
        } else {
            verdict.notJudged.insert(.tables)
        }
        guard let limit = run.connectionsPerSecond else { return }
        for (second, count) in connectionsPerSecond.sorted(by: { $0.key < $1.key }) where count > limit {
            verdict.find(.connections, "\(count) new connections to APNs in the second of \(at(second * 1_000_000))")
        }
    }
}
