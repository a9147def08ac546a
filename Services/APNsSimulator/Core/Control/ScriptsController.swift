import Hummingbird
import StrictJSON

/// Scripts: the results of a token's next pushes.
struct ScriptsController {
    private static let longestDelayMilliseconds: Int64 = 3_600_000

    let simulator: APNsSimulator

    func put(_ request: ControlRequest) async throws -> Response {
        let token = try request.token()
        let script = try await request.body { reader -> AnswerScript? in
            let answers = reader.objects("answers", maximumCount: 10_000)?.compactMap { Self.answer($0) }
            let ending = reader.optionalChoice("then", of: AnswerScript.Ending.self) ?? .accept
            if answers?.isEmpty == true, ending == .repeat { reader.problem("answers", "too_short", "there is nothing to repeat") }
            return answers.map { AnswerScript($0, then: ending) }
        }
        simulator.world.setScript(script, for: token)
        return ControlAnswer.json { writer in
            writer.object { object in
                object.field("token", token.hex)
                object.field("answers", script.answers.count)
                object.field("then", script.ending.rawValue)
            }
        }
    }

    func remove(_ token: TokenKey) -> Response {
        simulator.world.setScript(nil, for: token)
        return ControlAnswer.noContent
    }

    private static func answer(_ fields: JSONObjectReader) -> ScriptedAnswer? {
        var reader = fields
        let action = reader.optionalChoice("action", of: ScriptedAnswer.Action.self) ?? .answer
        let statuses: ClosedRange<Int64> = 200...599
        let status = action == .answer ? reader.integer("status", in: statuses) : reader.optionalInteger("status", in: statuses) ?? 200
        let reason = reader.optionalString("reason", maximumBytes: 200)
        let timestamp = reader.optionalInteger("timestamp_ms", in: 0...Int64.max)
        let delay = reader.optionalInteger("delay_ms", in: 0...longestDelayMilliseconds) ?? 0
        let code = reader.optionalInteger("error_code", in: 0...Int64(UInt32.max))
        reader.finish()
        guard let status else { return nil }
        return ScriptedAnswer(
            action, answer: Answer(status: Int(status), reason: reason, timestamp: timestamp), delay: .milliseconds(delay),
            resetCode: code.map { UInt32($0) } ?? ScriptedAnswer.refusedStream)
    }
}
