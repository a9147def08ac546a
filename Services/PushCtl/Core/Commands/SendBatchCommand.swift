import ArgumentParser
import PushAPI
import StrictJSON

struct SendBatchCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "send-batch", abstract: "Send many notifications from a file, one JSON object per line.",
        discussion: """
            Each line is {"notification": …, "idempotency_key": "…"}: what POST …/notifications takes, and a key, which may be left out. \
            Up to 1000 lines go in one request. Prints one line for each, in the file's order: the line's number and what became of it; \
            with -o json the service's answer, with the number as "line". A bad line fails alone. Blank lines are passed over.
            A request that the service cannot take yet is repeated. Where it cannot go on, it says with which line to go on; to send \
            the same again is harmless for lines with an idempotency_key.
            Exit codes: 0 all accepted, 2 some lines were refused, 1 could not go on.
            """)
    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var output: OutputOptions
    @Argument(help: "The app.") var app: String
    @Argument(help: "The file; - for standard input.") var file: String
    @Option(help: "Pass over the lines before this one.") var fromLine = 1
    @Option(help: "How often a request that the service cannot take yet is tried.") var attempts = 15

    func validate() throws {
        guard fromLine >= 1 else { throw ValidationError("--from-line must be 1 or more") }
        guard attempts >= 1 else { throw ValidationError("--attempts must be 1 or more") }
    }

    func run() async throws {
        let input = try CommandInput(file)
        let lines = BatchLines(firstLine: fromLine) { try input.next() }
        let path = "/v1/apps/\(app.percentEncoded)/notifications/batch"
        let refused = try await connection.withClient { client in
            let run = BatchRun(
                send: { body in try await client.tree(.init(.post, path, json: body)) }, maximumAttempts: attempts, pause: Backoff.wait,
                onResult: show)
            return try await run.run(lines)
        }
        if refused > 0 { throw ExitCode(2) }
    }

    private func show(_ result: BatchResult) throws {
        try StandardOutput.print(output.isJSON ? result.json : result.text)
        guard !output.isJSON, result.isAccepted else { return }
        for warning in result.answer?["warnings"]?.arrayValue ?? [] {
            StandardError.write("line \(result.line): \(warningLine(warning))\n")
        }
    }
}
