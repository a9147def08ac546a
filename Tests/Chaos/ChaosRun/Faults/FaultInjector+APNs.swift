import ChaosLedger
import PushAPI

/// Faults of the simulated APNs.
extension FaultInjector {
    private func command(_ text: String) async {
        _ = await caller.ask(.init(.post, "/v1/commands", json: Array(text.utf8)), at: platform.simulatorURL)
    }

    /// Every 200 ms to every connection, of whatever came since.
    func sendGoAways(seconds: Double) async throws {
        var record = begin(.goAway, "simulator")
        let end = ContinuousClock.now + .seconds(seconds)
        while ContinuousClock.now < end {
            await command(#"{"command":"goaway","reason":"Shutdown"}"#)
            try await Task.sleep(for: .milliseconds(200))
        }
        self.end(&record)
        try await recover(&record) { await everythingIsReady() }
    }

    func limitStreams(seconds: Double) async throws {
        var record = begin(.streamLimit, "simulator")
        await command(#"{"command":"streams","streams":1}"#)
        try await Task.sleep(for: .seconds(seconds))
        await command(#"{"command":"streams","streams":\#(RunSettings.streams)}"#)
        end(&record)
        try await recover(&record) { await everythingIsReady() }
    }

    func answerErrors(seconds: Double) async throws {
        try await play(
            .refusals, seconds: seconds,
            """
            {"v":1,"name":"errors","requests":[
              {"name":"errors","share":0.1,"do":[
                {"action":"answer","status":429,"reason":"TooManyRequests","weight":3},
                {"action":"answer","status":500,"reason":"InternalServerError","weight":1},
                {"action":"answer","status":503,"reason":"ServiceUnavailable","weight":1},
                {"action":"reset","error_code":7,"weight":3}]}]}
            """)
    }

    func answerSlowly(seconds: Double) async throws {
        try await play(
            .slowAnswers, seconds: seconds,
            """
            {"v":1,"name":"late","requests":[
              {"name":"never","share":0.005,"do":[{"action":"silence"}]},
              {"name":"late","share":0.3,"do":[{"action":"late","delay":{"percentiles":[[50,50],[99,1500],[100,4000]]}}]}]}
            """)
    }

    func cutAPNs() async throws {
        var record = begin(.connectionsCut, "simulator")
        await command(#"{"command":"close"}"#)
        end(&record)
        try await recover(&record) { await everythingIsReady() }
    }

    func breakTLS(seconds: Double) async throws {
        try await play(
            .tls, "dispatcher>apns", seconds: seconds,
            """
            {"v":1,"name":"tls","connections":[{"name":"tls","do":[
              {"action":"wrong_certificate"},{"action":"refuse_tls"},{"action":"no_alpn"},{"action":"stall_tls","for_ms":3000}]}]}
            """
        ) {
            await command(#"{"command":"close"}"#)
        }
    }

    private func play(
        _ kind: FaultRecord.Kind, _ target: String = "simulator", seconds: Double, _ scenario: String, also: () async -> Void = {}
    ) async throws {
        var record = begin(kind, target)
        let answer = await caller.ask(.init(.put, "/v1/scenario", json: Array(scenario.utf8)), at: platform.simulatorURL)
        guard answer?.status == 200 else { throw ChaosError("the simulator refused a scenario: \(answer?.status ?? 0)") }
        await also()
        try await Task.sleep(for: .seconds(seconds))
        _ = await caller.ask(.init(.delete, "/v1/scenario"), at: platform.simulatorURL)
        end(&record)
        try await recover(&record) { await everythingIsReady() }
    }
}
