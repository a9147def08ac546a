import ArgumentParser
import PushAPI
import PushModel
import StrictJSON

struct QuarantineCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "quarantine", abstract: "Tokens that were retired by our own mistake, as the brake found.",
        discussion:
            """
            When too large a share of an app's tokens is rejected at once, none is retired any more and the last ten minutes' are put aside.
            """,
        subcommands: [List.self, Restore.self])

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "List the tokens in quarantine of an app.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app.") var app: String
        @Option(help: "Show at most so many.") var limit = 100

        func validate() throws {
            guard limit > 0 else { throw ValidationError("--limit must be positive") }
        }

        func run() async throws {
            let (total, tokens) = try await connection.withClient { client in try await client.quarantine(of: app, limit: limit) }
            let sum = tokens.count < total ? "\(tokens.count) of \(total) in quarantine" : "\(total) in quarantine"
            try output.show(
                { document in
                    document.field("total", total)
                    document.array("tokens") { array in
                        for token in tokens { array.value(token) }
                    }
                }, "\(quarantineTable(tokens))\n\(sum)")
        }
    }

    struct Restore: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Bring tokens back to life, when the mistake is mended.",
            discussion: "It never overwrites what a device registered since, and may be broken off and repeated.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app.") var app: String
        @Option(help: "Only this installation's; may be given several times.") var installation: [String] = []
        @Flag(help: "Do not ask.") var yes = false

        func validate() throws {
            guard installation.count <= 1000 else { throw ValidationError("at most 1000 times --installation") }
            for text in installation where PushID(text) == nil { throw ValidationError("\(text) is not an installation's id, a UUID") }
        }

        func run() async throws {
            try await connection.withClient { client in
                let total = try await client.quarantine(of: app, limit: 1).total
                guard total > 0 else { return try show(QuarantineProgress(), "nothing is in quarantine") }
                guard yes || confirmed(total) else { throw CommandFailure("nothing was restored") }
                let sum = try await client.restoreQuarantine(of: app, installations: installation) { progress in
                    StandardError.write("\(progress.restored) restored, \(progress.superseded) superseded, \(progress.remaining) to go\n")
                }
                try show(sum, "\(sum.restored) restored, \(sum.superseded) superseded by something newer")
            }
        }

        private func show(_ sum: QuarantineProgress, _ text: String) throws {
            try output.show(
                { document in
                    document.field("restored", sum.restored)
                    document.field("superseded", sum.superseded)
                    document.field("remaining", sum.remaining)
                }, text)
        }

        private func confirmed(_ total: Int64) -> Bool {
            let named = "the tokens of \(counted(installation.count, "installation", "installations"))"
            let what = installation.isEmpty ? counted(total, "token", "tokens") : named
            StandardError.write("Restore \(what) in quarantine of \(app)? [y/N] ")
            return ["y", "yes"].contains(readLine()?.lowercased())
        }
    }
}

/// The progress of restoring.
struct QuarantineProgress: Equatable {
    var restored: Int64 = 0
    var superseded: Int64 = 0
    var remaining: Int64 = 0

    /// Adds one answer of the service.
    mutating func add(_ answer: JSONValue) throws {
        guard let restored = answer["restored"]?.integerValue, let superseded = answer["superseded"]?.integerValue,
            let remaining = answer["remaining"]?.integerValue
        else { throw CommandFailure("the answer does not say what was restored") }
        self.restored += restored
        self.superseded += superseded
        self.remaining = remaining
    }
}

extension PushAPI {
    /// The first `limit` tokens in quarantine, and how many there are.
    func quarantine(of app: String, limit: Int) async throws -> (total: Int64, tokens: [JSONValue]) {
        var tokens: [JSONValue] = []
        var total: Int64 = 0
        var cursor: String?
        repeat {
            let size = min(1000, limit - tokens.count)
            let page = try await get(
                "/v1/apps/\(app.percentEncoded)/quarantine?limit=\(size)" + (cursor.map { "&cursor=\($0.percentEncoded)" } ?? ""))
            tokens += page["tokens"]?.arrayValue ?? []
            total = page["total"]?.integerValue ?? 0
            cursor = page["next_cursor"]?.stringValue
        } while cursor != nil && tokens.count < limit
        return (total, tokens)
    }

    /// Calls until none is left; the service restores a bounded number each time.
    func restoreQuarantine(
        of app: String, installations: [String], onProgress: (QuarantineProgress) -> Void
    ) async throws -> QuarantineProgress {
        var sum = QuarantineProgress()
        repeat {
            let before = sum
            try sum.add(
                await post("/v1/apps/\(app.percentEncoded)/quarantine/restore") { body in
                    if !installations.isEmpty { body.field("installations", installations) }
                })
            // Tokens that come into quarantine meanwhile are left for another call.
            guard sum.restored + sum.superseded > before.restored + before.superseded else { break }
            if sum.remaining > 0 { onProgress(sum) }
        } while sum.remaining > 0
        return sum
    }
}

/// One row per token in quarantine.
func quarantineTable(_ tokens: [JSONValue]) -> Table {
    var table = Table("INSTALLATION", "TOKEN", "ENVIRONMENT", "PURPOSE", "RETIRED", "QUARANTINED")
    for token in tokens {
        table.add(
            token["installation"]?.stringValue ?? "?", token["hint"]?.stringValue ?? "?", token["environment"]?.stringValue ?? "?",
            token["purpose"]?.stringValue ?? "?", token["retired_at"]?.stringValue ?? "?", token["quarantined_at"]?.stringValue ?? "?")
    }
    return table
}
