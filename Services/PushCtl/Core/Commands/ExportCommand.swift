import ArgumentParser
import PushAPI

struct ExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export", abstract: "Write every registered installation with its live tokens, one JSON object per line.",
        discussion: """
            What it writes, 'pushctl import' takes. The file holds device tokens, which are personal data; only its owner may read it. \
            After a lost connection it goes on by itself. It writes FILE.partial, which becomes FILE at the end; a link, a pipe or a \
            device is written in its place. A run that fails says the id to go on with, by --after, which appends to FILE.partial, or else \
            to FILE.
            """)
    @OptionGroup var connection: ConnectionOptions
    @Argument(help: "The app.") var app: String
    @Option(name: .shortAndLong, help: "The file; default: standard output.") var output: String?
    @Option(help: "Only installations whose id is above this one.") var after: String?
    @Option(help: "How often in a row a connection may bring nothing before it is given up.") var attempts = 10

    func validate() throws {
        try refuseFormat(output)
        guard attempts >= 1 else { throw ValidationError("--attempts must be 1 or more") }
    }

    func run() async throws {
        let file = try output.map { try LineFile(replacing: $0, continues: after != nil) } ?? LineFile.standardOutput
        let progress = ProgressLine()
        let count: Int
        do {
            count = try await connection.withClient { client in
                let run = ExportRun(
                    client: client, app: app, maximumAttempts: attempts, pause: Backoff.wait,
                    onLine: { line in try file.append(line: line) },
                    onProgress: { count in
                        progress.show { "\(counted(count, "line", "lines")), \(Int($0 > 0 ? Double(count) / $0 : 0)) per second" }
                    })
                return try await Interruption.orResult(of: { [after] in try await run.run(after: after) }) {
                    CommandFailure("interrupted; go on with --after and the id in the last line")
                }
            }
        } catch {
            progress.end()
            try file.flush()
            if let leftover = file.leftover { StandardError.write("what came so far is in \(leftover)\n") }
            throw error
        }
        progress.end()
        try file.finish()
        StandardError.write("\(counted(count, "installation", "installations"))\n")
    }
}
