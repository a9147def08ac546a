import ChaosLedger
import Glibc
import Synchronization

/// Disks without room.
extension FaultInjector {
    func fillBrokerDisk(seconds: Double) async throws {
        guard let disk = platform.brokerDisk, let broker = platform.brokers.last else { return skip() }
        let limit = ContinuousClock.now + .seconds(seconds + 120)
        let isReplaced = Atomic(false)
        try await fill(disk, broker.name, broker.program, seconds: seconds) {
            let isAlone = platform.brokers.count == 1
            guard await broker.worksAgain() else {
                // RabbitMQ 3.10 sometimes loses the state of the control stream on that node for good (`rabbit_stream_coordinator failed to
                // update stream`). As in the runbook, the node is replaced.
                if !isAlone, .now > limit, !isReplaced.exchange(true, ordering: .relaxed) { await replace(broker) }
                return false
            }
            return isAlone ? true : await everyQueueIsWhole(orRepairedAfter: limit)
        }
    }

    private func replace(_ broker: BrokerServer) async {
        say("    \(broker.name) does not work after its full disk: it comes back with nothing")
        do { try await broker.comeBackEmpty(to: platform.brokers[0]) } catch { say("    \(broker.name) could not be replaced: \(error)") }
    }

    func fillPostgresDisk(seconds: Double) async throws {
        guard let disk = platform.postgresDisk else { return skip() }
        let postgres = platform.databases.all[0]
        try await fill(disk, "postgres", postgres.program, seconds: seconds) { await postgres.isReady() }
    }

    private func skip() { say("    skipped: its data is not on a small disk") }

    /// The server may refuse writes or die of the full disk. Its supervisor starts it again, in vain until there is room.
    private func fill(
        _ disk: SmallDisk, _ target: String, _ program: OwnedProgram, seconds: Double, _ isReady: @Sendable () async -> Bool
    ) async throws {
        let starts = program.starts
        var record = begin(.disk, target, process: program.processID)
        let end = ContinuousClock.now + .seconds(seconds)
        while ContinuousClock.now < end {
            try disk.fill()
            try await Task.sleep(for: .milliseconds(200))
        }
        try disk.free()
        self.end(&record)
        // A server that lives and does not work gets a SIGTERM, as an operator would send.
        if (try? await waitUntil("\(target) works again", within: .seconds(60), isReady)) == nil { program.signal(SIGTERM) }
        try await recover(&record, within: .seconds(360)) {
            guard await isReady() else { return false }
            return await everythingIsReady()
        }
        guard program.starts > starts else { return }
        say("    \(target) died of its full disk and was started \(program.starts - starts) times")
        var death = begin(.kill, target, detail: "of its full disk")
        (death.beganAt, death.endedAt, death.recoveredAt) = (record.beganAt, record.endedAt, record.recoveredAt)
        ledgers.note(death)
    }
}
