import ArgumentParser
import PushAPI
import PushModel
import StrictJSON

struct DeadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "dead", abstract: "Dead letters: jobs that were given up, and messages that no service could read.",
        discussion:
            "They wait in the broker, in their order, until they are replayed or dropped. For a key of an administrator that is bound to no app.",
        subcommands: [List.self, Show.self, Replay.self, Drop.self])

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Count them by reason and app, and list the oldest.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var filter: DeadLetterOptions
        @Option(help: "Show at most so many.") var limit = 20

        func validate() throws {
            guard (1...1000).contains(limit) else { throw ValidationError("--limit must be from 1 to 1000") }
        }

        func run() async throws {
            let page = try await connection.withClient { client in
                try await client.get("/v1/admin/dead-letters?limit=\(limit)\(filter.query)")
            }
            let (counts, letters) = (page["counts"]?.arrayValue ?? [], page["letters"]?.arrayValue ?? [])
            try output.show(page, "\(deadLetterCounts(counts))\n\n\(deadLetterTable(letters))\n\(deadLetterSummary(page))")
        }
    }

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show one with its job, without payload and whole tokens.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The letter's id.") var id: String

        func validate() throws {
            guard PushID(id) != nil else { throw ValidationError("\(id) is not a letter's id, a UUID") }
        }

        func run() async throws {
            let letter = try await connection.withClient { client in try await client.get("/v1/admin/dead-letters/\(id)") }
            try output.show(letter, deadLetterLines(letter).joined(separator: "\n"))
        }
    }

    struct Replay: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Send deliveries that were given up again, to the devices that may still get them.",
            discussion: """
                Each delivery is resolved anew: only where the same user is still signed in, to the token that the installation has now, and under \
                the same id. May be broken off and repeated.
                """)
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var choice: DeadLetterChoice
        @Option(help: "Give notifications that are past their expiry so many seconds more; without it they are left alone.")
        var extend: Int64?

        func validate() throws {
            try choice.validateChoice()
            if let extend, !(1...259_200).contains(extend) { throw ValidationError("--extend must be from 1 to 259200 seconds") }
        }

        func run() async throws {
            try await connection.withClient { client in
                guard try await choice.isConfirmed("Replay", client) else { throw CommandFailure("nothing was replayed") }
                var sum = DeadLetterReplaySum()
                repeat {
                    let before = sum.letters
                    try sum.add(
                        await client.post("/v1/admin/dead-letters/replay") { body in
                            choice.write(to: &body)
                            if let extend { body.field("extend_seconds", extend) }
                        })
                    // Else it would read the letters that stay again and again.
                    guard sum.letters > before else { break }
                } while sum.remaining > 0
                try output.show(sum.write(to:), sum.description)
            }
        }
    }

    struct Drop: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Drop them for good.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var choice: DeadLetterChoice

        func validate() throws { try choice.validateChoice() }

        func run() async throws {
            try await connection.withClient { client in
                guard try await choice.isConfirmed("Drop", client) else { throw CommandFailure("nothing was dropped") }
                var letters: Int64 = 0
                var remaining: Int64 = 0
                repeat {
                    let answer = try await client.post("/v1/admin/dead-letters/drop") { body in choice.write(to: &body) }
                    guard let dropped = answer["letters"]?.integerValue, let left = answer["remaining"]?.integerValue else {
                        throw CommandFailure("the answer does not say what was dropped")
                    }
                    letters += dropped
                    remaining = dropped > 0 ? left : 0
                } while remaining > 0
                try output.show({ $0.field("letters", letters) }, "\(counted(letters, "letter", "letters")) dropped")
            }
        }
    }
}
