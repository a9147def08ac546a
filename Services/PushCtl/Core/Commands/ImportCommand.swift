import ArgumentParser
import FoundationEssentials
import PushAPI
import StrictJSON

struct ImportCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "import", abstract: "Register many installations from a file, one JSON object per line.",
        discussion: """
            Each line is {"id": …, "user": … or null, "tokens": [{"token": …, "environment": …, "purpose": …}], …}, as 'pushctl export' \
            writes it. A bad line fails alone; errors and warnings are written as JSON lines. After a lost connection it goes on by \
            itself; after an end it says the line to go on with. Registering the same again is harmless.
            Exit codes: 0 all good, 2 some lines failed, 1 could not go on.
            """)
    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var output: OutputOptions
    @Argument(help: "The app.") var app: String
    @Argument(help: "The file; - for standard input.") var file: String
    @Option(help: "Where errors and warnings go, as JSON lines; default: standard error.") var errors: String?
    @Option(help: "Pass over the lines before this one.") var fromLine = 1
    @Option(help: "How often in a row a connection may bring nothing before it is given up.") var attempts = 10

    func validate() throws {
        guard fromLine >= 1 else { throw ValidationError("--from-line must be 1 or more") }
        guard attempts >= 1 else { throw ValidationError("--attempts must be 1 or more") }
    }

    func run() async throws {
        let input = try input()
        let errors = try errors.map { try LineFile(inPlace: $0) } ?? LineFile.standardError
        let progress = ProgressLine()
        let size = input.size
        let source = ImportSource(firstLine: fromLine, read: input.read)
        let counts: ImportCounts
        do {
            counts = try await connection.withClient { client in
                let run = ImportRun(
                    client: client, app: app, source: source, maximumAttempts: attempts, pause: Backoff.wait,
                    onFailure: { line in try errors.append(line: line) },
                    onProgress: { counts, bytes in
                        progress.show { Self.progress(counts, first: source.firstLine, bytes: bytes, size: size, seconds: $0) }
                    })
                return try await Interruption.orResult(of: run.run) {
                    CommandFailure("interrupted; go on with --from-line \(await source.through + 1)")
                }
            }
        } catch {
            progress.end()
            try errors.flush()
            throw error
        }
        progress.end()
        try errors.flush()
        let lines = counts.through - fromLine + 1
        try output.show(
            { document in
                document.field("lines", lines)
                document.field("created", counts.created)
                document.field("updated", counts.updated)
                document.field("failed", counts.failed)
                document.field("doubtful", counts.doubtful)
            },
            "\(counted(lines, "line", "lines")): \(counts.created) created, \(counts.updated) updated, \(counts.failed) failed"
                + (counts.doubtful > 0 ? ", \(counts.doubtful) with warnings" : ""))
        if counts.failed > 0 { throw ExitCode(2) }
    }

    static func progress(_ counts: ImportCounts, first: Int, bytes: Int, size: Int?, seconds: Double) -> String {
        let lines = counts.through - first + 1
        let rate = seconds > 0 ? Double(lines) / seconds : 0
        var text = "\(counted(lines, "line", "lines")), \(Int(rate)) per second, \(counts.failed) failed"
        if let size, bytes > 0, size > bytes {
            text += ", \(ProgressLine.duration(seconds / Double(bytes) * Double(size - bytes))) left"
        }
        return text
    }

    private func input() throws -> (read: @Sendable () throws -> [UInt8], size: Int?) {
        let input = try CommandInput(file)
        let size = file == "-" ? nil : try? FileManager.default.attributesOfItem(atPath: file)[.size] as? Int
        return ({ try input.next() }, size)
    }
}
