import ArgumentParser
import PushAPI
import PushModel
import StrictJSON

struct ChannelsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "channels", abstract: "Broadcast channels: one push to a channel reaches every Live Activity that follows it.",
        discussion: "A channel has a name that the backend chooses, and an id that Apple chooses. Apple allows 10,000 in each environment.",
        subcommands: [List.self, Get.self, Create.self, Adopt.self, Broadcast.self, Delete.self])

    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "List the channels of an app, the oldest first. The key needs the scope read.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app.") var app: String
        @Option(help: "Only channels in this state: creating, open, deleting, failed, foreign or lost.") var state: String?
        @Option(help: "Only channels of this environment: production or sandbox.") var environment: String?
        @Option(help: "Show at most so many.") var limit = 100

        func validate() throws {
            guard limit > 0 else { throw ValidationError("--limit must be positive") }
            try checkEnvironment(environment)
        }

        func run() async throws {
            let list = try await connection.withClient { client in
                try await client.pages(channelPath(app), [("state", state), ("environment", environment)], of: "channels", limit: limit)
            }
            try output.show(list, as: "channels", list.rows.isEmpty ? "no channels" : "\(channelTable(list.rows))")
        }
    }

    struct Get: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Show one channel and how many Live Activities follow it. The key needs the scope read.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app.") var app: String
        @Argument(help: "The channel's name.") var channel: String

        func run() async throws {
            let answer = try await connection.withClient { client in try await client.get(channelPath(app, channel)) }
            let followers = answer["followers"]?.integerValue ?? 0
            // The service counts no further.
            let words =
                followers < 10_000
                ? counted(followers, "Live Activity follows", "Live Activities follow") : "10000 or more Live Activities follow"
            try output.show(answer, "\(channelTable([answer]))\n\(words) it")
        }
    }

    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Create a channel. The key needs the scope send.",
            discussion: "Idempotent. Waits up to five seconds for Apple; after that the service goes on by itself.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app.") var app: String
        @Argument(help: "The channel's name.") var channel: String
        @Option(help: "production or sandbox.") var environment = "production"
        @Option(help: "What APNs keeps for devices that are offline: none, or the latest broadcast.") var storage: String

        func validate() throws {
            try checkEnvironment(environment)
            guard ChannelStorage(rawValue: storage) != nil else { throw ValidationError("\(storage) is no --storage: none or latest") }
        }

        func run() async throws {
            let answer = try await connection.withClient { client in
                try await client.put(channelPath(app, channel)) { body in
                    body.field("environment", environment)
                    body.field("storage", storage)
                }
            }
            try output.show(answer, channelLines(answer))
        }
    }

    struct Broadcast: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Update or end the Live Activities that follow a channel. The key needs the scope send.",
            discussion: """
                One request to APNs, however many devices follow the channel. Broadcasts of a channel go a second apart; a newer one \
                replaces one that still waits.
                """)
        @OptionGroup var state: NewStateOptions
        @Argument(help: "The app.") var app: String
        @Argument(help: "The channel's name.") var channel: String
        @Option(help: "update or end.") var event = "update"
        @Option(help: "5 or 10.") var priority: Int?
        @Flag(help: "Also update the channel's activities that have update tokens, one by one: for devices below iOS 18.")
        var fallback = false

        func validate() throws {
            guard ["update", "end"].contains(event) else { throw ValidationError("\(event) is no --event: update or end") }
        }

        func run() async throws {
            try await state.send(to: channelPath(app, channel) + "/broadcasts", event: event, { _ in }) { request in
                request.field("priority", priority)
                if fallback { request.field("fallback", "activities") }
            }
        }
    }

    struct Adopt: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Give a name to a channel that exists at Apple. The key needs the scope send.",
            discussion: "'pushctl channels list APP --state foreign' shows the channels that other programs made.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app.") var app: String
        @Argument(help: "The channel's name.") var channel: String
        @Option(help: "Apple's id of the channel, in base64.") var channelID: String
        @Option(help: "production or sandbox.") var environment = "production"

        func validate() throws {
            try checkEnvironment(environment)
            try checkChannelID(channelID)
        }

        func run() async throws {
            let answer = try await connection.withClient { client in
                try await client.put(channelPath(app, channel)) { body in
                    body.field("environment", environment)
                    body.field("channel_id", channelID)
                }
            }
            try output.show(answer, channelLines(answer))
        }
    }

    struct Delete: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Delete a channel at Apple, for good. The key needs the scope send.",
            discussion: "Refused while a Live Activity follows it. Apple never gives the id again.")
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app.") var app: String
        @Argument(help: "The channel's name; without one, --channel-id.") var channel: String?
        @Option(help: "Apple's id of a channel that has no name here.") var channelID: String?
        @Option(help: "With --channel-id: production or sandbox.") var environment = "production"
        @Flag(help: "Although Live Activities follow it.") var force = false

        func validate() throws {
            guard (channel == nil) != (channelID == nil) else { throw ValidationError("name a channel, or give --channel-id") }
            guard channelID == nil || !force else { throw ValidationError("no Live Activity follows a channel without a name: no --force") }
            try checkEnvironment(environment)
            if let channelID { try checkChannelID(channelID) }
        }

        func run() async throws {
            let query = channelID.map { [("channel_id", $0), ("environment", environment)] } ?? (force ? [("force", "true")] : [])
            let path = channel.map { channelPath(app, $0) } ?? channelPath(app)
            let answer = try await connection.withClient { client in
                try await client.tree(PushAPI.Call(.delete, path, query: query))
            }
            guard answer["state"] != nil else { return try output.show({ $0.field("deleted", channel ?? channelID ?? "") }, "deleted") }
            try output.show(answer, channelLines(answer))
        }
    }
}

private func channelPath(_ app: String, _ channel: String? = nil) -> String {
    "/v1/apps/\(app.percentEncoded)/channels" + (channel.map { "/\($0.percentEncoded)" } ?? "")
}

private func checkEnvironment(_ environment: String?) throws {
    guard let environment, APNsEnvironment(rawValue: environment) == nil else { return }
    throw ValidationError("\(environment) is no --environment: production or sandbox")
}

private func checkChannelID(_ id: String) throws {
    guard ChannelID(id) == nil else { return }
    throw ValidationError("\(id) is not Apple's id of a channel, which is base64")
}

/// The table, and what is still to come.
private func channelLines(_ channel: JSONValue) -> String {
    let state = channel["state"]?.stringValue
    let isPending = state == "creating" || state == "deleting"
    return "\(channelTable([channel]))"
        + (isPending ? "\nApple has not answered yet; the service goes on. See 'pushctl channels get'." : "")
}

/// One row per channel.
func channelTable(_ channels: [JSONValue]) -> Table {
    var table = Table("CHANNEL", "ENVIRONMENT", "STORAGE", "STATE", "APPLE'S ID", "CHANGED", "REASON")
    for channel in channels {
        table.add(
            channel["name"]?.stringValue ?? "(none)", channel["environment"]?.stringValue ?? "?",
            channel["storage"]?.stringValue ?? "?", channel["state"]?.stringValue ?? "?", channel["channel_id"]?.stringValue ?? "-",
            channel["changed_at"]?.stringValue ?? "?", channel["reason"]?.stringValue ?? "")
    }
    return table
}
