import ArgumentParser

struct ExportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "export", abstract: "Write every registered installation with its live tokens, one JSON object per line.",
        discussion: """
            What it writes, 'pushctl import' takes. The file holds device tokens, which are personal data; only its owner may read it. After a \
            lost connection it goes on by itself; after an end it says the id to go on with, by --after, which appends to the file.
            """)
    @OptionGroup var connection: ConnectionOptions
    @Argument(help: "The app.") var app: String
    @Option(name: .shortAndLong, help: "The file; default: standard output.") var output: String?
    @Option(help: "Only installations whose id is above this one.") var after: String?
    @Option(help: "How often in a row a connection may bring nothing before it is given up.") var attempts = 10

    func validate() throws {
        guard attempts >= 1 else { throw ValidationError("--attempts must be 1 or more") }
    }

    func run() async throws {
        let file = try output.map { try LineFile(path: $0, appends: after != nil) } ?? LineFile.standardOutput
        let progress = ProgressLine()
        let count: Int
        do {
            count = try await connection.withClient { client in
                let run = ExportRun(
                    client: client, app: app, maximumAttempts: attempts, pause: LostConnection.pause,
                    onLine: { line in try file.append(line: line) },
                    onProgress: { count in
                        progress.show { "\(count) lines, \(Int($0 > 0 ? Double(count) / $0 : 0)) per second" }
                    })
                return try await Interruption.orResult(of: { [after] in try await run.run(after: after) }) {
                    CommandFailure("interrupted; go on with --after and the id in the last line")
                }
            }
        } catch {
            progress.end()
            try file.flush()
            throw error
        }
        progress.end()
        try file.flush()
        StandardError.write("\(count) installations\n")
    }
}
