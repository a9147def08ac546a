import ArgumentParser
import PushAPI
import StrictJSON

struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "What became of a notification: its state, its outcomes, and its first devices.")
    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var output: OutputOptions
    @Argument(help: "The app.") var app: String
    @Argument(help: "The notification's id.") var id: String

    func run() async throws {
        let status = try await connection.withClient { client in
            try await client.get("/v1/apps/\(app.percentEncoded)/notifications/\(id.percentEncoded)")
        }
        try output.show(status, statusText(status))
    }
}

/// A notification's status document: the deliveries that it shows, and before them the outcomes of all, if there are more.
func statusText(_ status: JSONValue) -> String {
    let deliveries = status["deliveries"]?.arrayValue ?? []
    var parts = [statusLine(status)]
    if status["counts"]?["total"]?.integerValue ?? 0 > deliveries.count { parts.append("\(outcomeTable(status))") }
    if !deliveries.isEmpty { parts.append("\(deliveryTable(deliveries))") }
    return parts.joined(separator: "\n")
}

/// A notification's status document in one line.
func statusLine(_ status: JSONValue) -> String {
    let words = ["state", "accepted_at", "expires_at"].map { status[$0]?.stringValue ?? "?" }
    let line = "\(words[0]), accepted \(words[1]), expires \(words[2])"
    guard let reported = status["device_receipts"]?.objectValue else { return line }
    return line + "; devices report: " + reported.map { "\($0.value.integerValue ?? 0) \($0.key)" }.joined(separator: ", ")
}

/// One row per delivery.
func deliveryTable(_ deliveries: [JSONValue]) -> Table {
    var table = Table("INSTALLATION", "TOKEN", "ENVIRONMENT", "STATE", "STATUS", "REASON", "ATTEMPTS")
    for delivery in deliveries {
        let waiting = delivery["state"]?.stringValue == "pending" ? delivery["last_attempt"] : nil
        let state = waiting?["class"]?.stringValue.map { "waiting (\($0))" } ?? delivery["state"]?.stringValue ?? "?"
        let answer = waiting ?? delivery
        table.add(
            delivery["installation"]?.stringValue ?? "?", delivery["hint"]?.stringValue ?? "?", delivery["environment"]?.stringValue ?? "?",
            state, answer["status"]?.integerValue.map(String.init) ?? "-", answer["reason"]?.stringValue ?? "-",
            delivery["attempts"]?.integerValue.map(String.init) ?? "0")
    }
    return table
}
