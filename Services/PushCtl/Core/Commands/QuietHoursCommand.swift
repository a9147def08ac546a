import ArgumentParser
import PushAPI
import StrictJSON

struct QuietHoursCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "quiet-hours", abstract: "When a user does not want to be disturbed, by the clock where each device is.",
        discussion:
            "What comes meanwhile waits until their end, unless it is urgent or expires before. Changes concern what is sent from then on.",
        subcommands: [Show.self, Set.self, Clear.self])

    struct Show: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Show them. The key needs the scope read or devices.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app.") var app: String
        @Argument(help: "The user, as the app calls them.") var user: String

        func run() async throws {
            let hours = try await connection.withClient { client in try await client.get(try userPath(app, user, "quiet-hours")) }
            try output.show(hours, quietHoursLine(hours))
        }
    }

    struct Set: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Set them, whatever they were. The key needs the scope devices.",
            discussion: "Over midnight where the end comes first: 22:00 07:00.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app.") var app: String
        @Argument(help: "The user, as the app calls them.") var user: String
        @Argument(help: "From when, HH:MM.") var begin: String
        @Argument(help: "Until when, HH:MM.") var end: String

        func validate() throws {
            for time in [begin, end] where !isTimeOfDay(time) { throw ValidationError("\(time) is no time of day: HH:MM, 00:00 to 23:59") }
            guard begin != end else { throw ValidationError("they must end at another time than they begin") }
        }

        func run() async throws {
            let hours = try await connection.withClient { client in
                try await client.put(try userPath(app, user, "quiet-hours")) { body in
                    body.field("begins_at", begin)
                    body.field("ends_at", end)
                }
            }
            try output.show(hours, quietHoursLine(hours))
        }
    }

    struct Clear: AsyncParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Remove them. The key needs the scope devices.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app.") var app: String
        @Argument(help: "The user, as the app calls them.") var user: String

        func run() async throws {
            _ = try await connection.withClient { client in try await client.delete(try userPath(app, user, "quiet-hours")) }
            try output.show({ $0.field("cleared", user) }, "no quiet hours")
        }
    }
}

func quietHoursLine(_ hours: JSONValue) -> String {
    "from \(hours["begins_at"]?.stringValue ?? "?") to \(hours["ends_at"]?.stringValue ?? "?"), where each device is"
}

private func isTimeOfDay(_ text: String) -> Bool {
    let parts = text.split(separator: ":", omittingEmptySubsequences: false)
    guard parts.count == 2, parts.allSatisfy({ $0.utf8.count == 2 }), let hour = UInt8(parts[0]), let minute = UInt8(parts[1]) else {
        return false
    }
    return hour < 24 && minute < 60
}
