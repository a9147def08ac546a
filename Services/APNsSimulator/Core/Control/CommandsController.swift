import Hummingbird
import StrictJSON

/// Commands to live connections.
struct CommandsControl {
    private enum Command: String, CaseIterable {
        case goAway = "goaway"
        case close
        case silence
        case answer
        case streams
    }

    let simulator: APNsSimulator

    func post(_ request: ControlRequest) async throws -> Response {
        let command = try await request.body { reader -> (() -> Void)? in
            let name = reader.choice("command", of: Command.self)
            let selection = Self.selection(&reader)
            guard let name else { return nil }
            return Self.action(name, selection, &reader, simulator)
        }
        command()
        return ControlAnswer.json(.accepted) { writer in writer.object { _ in } }
    }

    private static func selection(_ reader: inout JSONObjectReader) -> APNsSimulator.Selection {
        let environment = reader.optionalChoice("environment", of: SimulatorEnvironment.self)
        let connection = reader.optionalInteger("connection", in: 1...Int64(UInt32.max))
        if environment != nil, connection != nil { reader.problem("connection", "unsupported_value", "either this or environment") }
        return connection.map { .connection(Int($0)) } ?? environment.map { .environment($0) } ?? .all
    }

    private static func action(
        _ command: Command, _ selection: APNsSimulator.Selection, _ reader: inout JSONObjectReader, _ simulator: APNsSimulator
    ) -> (() -> Void)? {
        switch command {
        case .close:
            let abruptly = reader.optionalBool("abruptly") ?? false
            return { simulator.closeConnections(selection, abruptly: abruptly) }
        case .silence: return { simulator.setSilent(true, selection) }
        case .answer: return { simulator.setSilent(false, selection) }
        case .streams:
            return reader.integer("streams", in: 0...1_000_000).map { streams in { simulator.setStreams(Int(streams), selection) } }
        case .goAway:
            let reason = reader.optionalString("reason", maximumBytes: 200)
            let lastStream = reader.optionalInteger("last_stream", in: 0...Int64(Int32.max))
            if let lastStream, !LastStream.isPossible(lastStream) {
                reader.problem("last_stream", "unsupported_value", "0 or odd, as clients' streams are")
            }
            let code = reader.optionalInteger("error_code", in: 0...Int64(UInt32.max)).map { UInt32($0) } ?? 0
            let debug = StatusAnswer(status: 503, reason: reason).body ?? []
            return { simulator.post(.goAway(selection, lastStream: lastStream.map { Int32($0) }, code: code, debug: debug)) }
        }
    }
}
