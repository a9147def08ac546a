import ArgumentParser
import PushAPI
import StrictJSON

/// Sends a new state to Live Activities.
struct NewStateOptions: ParsableArguments {
    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var output: OutputOptions
    @Option(help: "The content state, a JSON object in the app's own shape.") var state: String?
    @Option(help: "The same key again sends nothing new and gives the same answer.") var idempotencyKey: String?

    /// - Parameters:
    ///   - content: Writes further fields of `content`.
    ///   - more: Writes the fields beside `content`.
    func send(
        to path: String, event: String, _ content: (inout JSONWriter) -> Void, _ more: (inout JSONWriter) -> Void
    ) async throws {
        let state = try state.map { text in
            let bytes = Array(text.utf8)
            do {
                guard try JSONValue.parse(bytes).objectValue != nil else { throw CommandFailure("--state is JSON, but not an object") }
            } catch let error as JSONError {
                throw CommandFailure("--state is not a JSON object: \(error)")
            }
            return bytes
        }
        guard event == "end" || state != nil else { throw CommandFailure("--state is missing: the content state to show") }
        let request = JSONWriter.object { request in
            more(&request)
            request.object("content") { object in
                object.field("event", event)
                if let state { object.field("content_state", raw: state) }
                content(&object)
            }
        }
        let accepted = try await connection.withClient { client in
            try await client.tree(.init(.post, path, json: request, idempotencyKey: idempotencyKey))
        }
        try output.show(accepted, receiptLine(accepted))
        for warning in accepted["warnings"]?.arrayValue ?? [] { StandardError.write("\(warningLine(warning))\n") }
    }
}
