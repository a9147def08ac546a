import Hummingbird
import StrictJSON

/// The scenario that runs, and the available ones.
struct ScenarioControl {
    let simulator: APNsSimulator

    func read() -> Response {
        let performance = simulator.performance
        let elapsed = performance.map { simulator.configuration.clock() - $0.startedAt }
        return ControlAnswer.json { writer in
            writer.object { object in
                object.field("name", performance?.scenario.name ?? Scenario.calm.name)
                object.field("about", performance?.scenario.about ?? Scenario.calm.about)
                object.field("seed", Int64(clamping: performance?.scenario.seed ?? Scenario.calm.seed))
                object.field("started_at", performance.map { rfc3339($0.startedAt) })
                object.field("elapsed_ms", elapsed)
                object.object("readings") { (performance?.scenario.readings ?? Readings()).write(to: &$0) }
                object.array("rules") { array in
                    for strike in performance?.strikes ?? [] {
                        array.object { entry in
                            entry.field("name", strike.name)
                            entry.field("struck", strike.count)
                        }
                    }
                }
            }
        }
    }

    /// A whole scenario, or `{"ready":"bad-day"}`, optionally with another `seed`.
    func put(_ request: ControlRequest) async throws -> Response {
        let scenario = try await request.body { reader -> Scenario? in
            guard reader.has("ready") else { return ScenarioReader.read(&reader) }
            let seed = reader.optionalInteger("seed", in: 0...Int64.max)
            guard let ready = reader.choice("ready", of: ReadyScenario.self) else { return nil }
            do throws(SimulatorError) {
                var scenario = try ready.scenario
                if let seed { scenario.seed = UInt64(seed) }
                return scenario
            } catch {
                reader.problem("ready", "unsupported_value", error.description)
                return nil
            }
        }
        try simulator.play(scenario)
        return read()
    }

    func remove() throws -> Response {
        try simulator.playNothing()
        return ControlAnswer.noContent
    }

    func list() throws -> Response {
        let all = try ReadyScenario.allCases.map { try $0.scenario }
        return ControlAnswer.json { writer in
            writer.object { object in
                object.array("scenarios") { array in
                    for scenario in all {
                        array.object { entry in
                            entry.field("name", scenario.name)
                            entry.field("about", scenario.about)
                        }
                    }
                }
            }
        }
    }
}
