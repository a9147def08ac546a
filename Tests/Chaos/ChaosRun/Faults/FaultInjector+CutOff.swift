import ChaosLedger
import Glibc
import PushAPI
import TestSupport

/// Kills at the worst moment: while much work has begun and none of it is done.
extension FaultInjector {
    /// Jobs that a token service sent and the broker never got are lost with the process. Only the database can save them.
    func killCutOff(_ service: Platform.Service, seconds: Double) async throws {
        let program = service.program
        let link = "\(program.name)>rabbitmq"
        guard let proxy = platform.links[link] else { throw ChaosError("there is no link \(link)") }
        let starts = program.starts
        var dark = begin(.blackHole, "token-service>rabbitmq", detail: link)
        proxy.set(.blackHole)
        try await Task.sleep(for: .seconds(seconds))
        var record = begin(.kill, program.name, process: program.processID)
        program.signal(SIGKILL)
        end(&record)
        proxy.set(.forwarding)
        end(&dark)
        try await recover(&record) { program.starts > starts ? await isReady(service) : false }
        dark.recoveredAt = record.recoveredAt
        ledgers.note(dark)
    }

    /// APNs answers late, so the dispatcher has much work in flight when it is killed.
    func killInMidSend(_ service: Platform.Service, seconds: Double) async throws {
        let program = service.program
        let starts = program.starts
        try await beginAnsweringLate()
        try await Task.sleep(for: .seconds(seconds))
        var record = begin(.kill, program.name, process: program.processID)
        program.signal(SIGKILL)
        end(&record)
        await answerAtOnce()
        try await recover(&record) { program.starts > starts ? await isReady(service) : false }
    }

    /// APNs answers the requests that it took before the GOAWAY, late. The dispatcher must not send them again.
    func sayGoAwayInMidSend(times: Int) async throws {
        try await beginAnsweringLate()
        var record = begin(.goAway, "simulator")
        for _ in 0..<times {
            try await Task.sleep(for: .seconds(1))
            let command = Array(#"{"command":"goaway","reason":"Shutdown"}"#.utf8)
            _ = await caller.ask(.init(.post, "/v1/commands", json: command), at: platform.simulatorURL)
        }
        end(&record)
        await answerAtOnce()
        try await recover(&record) { await everythingIsReady() }
    }

    /// Far sooner than any request times out, so this is no fault and excuses nothing.
    private func beginAnsweringLate() async throws {
        let late =
            #"{"v":1,"name":"late","requests":[{"name":"late","do":[{"action":"late","delay":{"percentiles":[[50,400],[100,800]]}}]}]}"#
        let answer = await caller.ask(.init(.put, "/v1/scenario", json: Array(late.utf8)), at: platform.simulatorURL)
        guard answer?.status == 200 else { throw ChaosError("the simulator refused a scenario: \(answer?.status ?? 0)") }
    }

    private func answerAtOnce() async { _ = await caller.ask(.init(.delete, "/v1/scenario"), at: platform.simulatorURL) }
}
