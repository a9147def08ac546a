import ArgumentParser
import PushAPI
import PushModel
import StrictJSON

struct CancelCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cancel", abstract: "Stop a notification for good, as far as it was not sent yet.",
        discussion:
            """
            Nothing more of it leaves one second later. It may be repeated. The key needs the scope send. To go on later, see 'pushctl \
            hold'.
            """
    )
    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var output: OutputOptions
    @Argument(help: "The app.") var app: String
    @Argument(help: "The notification's id.") var id: String

    func validate() throws {
        guard PushID(id) != nil else { throw ValidationError("\(id) is not a notification's id, a UUID") }
    }

    func run() async throws {
        let answer = try await connection.withClient { client in
            try await client.delete("/v1/apps/\(app.percentEncoded)/notifications/\(id.percentEncoded)")
        }
        try output.show(answer, cancellationLines(answer))
    }
}

/// The result of a cancellation.
func cancellationLines(_ answer: JSONValue) -> String {
    let state = answer["state"]?.stringValue ?? "?"
    guard state == "cancelled" else { return "Too late: it is \(state). Nothing was stopped." }
    let stoppable = answer["stoppable"]?.integerValue ?? 0
    var lines = ["Cancelled. \(counted(stoppable, "delivery was", "deliveries were")) still stoppable."]
    if answer["not_expanded"]?.boolValue == true { lines.append("Its audience was not fanned out to the end: more would have followed.") }
    if answer["fence"]?.stringValue == "pending" {
        lines.append("The broker has not confirmed it yet; the service goes on trying. Repeat the command to see it confirmed.")
    }
    return lines.joined(separator: "\n")
}
