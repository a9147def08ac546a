import ArgumentParser
import PushAPI
import PushModel
import StrictJSON

struct SendCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "send", abstract: "Send a notification.",
        discussion: """
            Either --file with the whole request, in JSON as POST …/notifications takes it (targets, locales, times and all), or the \
            simple case by options: --user or --installation, or --users-file or --installations-file with one in each line, up to \
            100,000; with --title and/or --body, or --payload FILE with an APNs payload that is sent verbatim. 'pushctl validate' says \
            what a request would do.
            Exit codes with --wait: 0 APNs accepted every delivery, 2 only some of them, 3 none (no device to send to, or all failed).
            """)
    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var output: OutputOptions
    @Argument(help: "The app.") var app: String
    @Option(help: "A file with the whole request; - for standard input.") var file: String?
    @Option(help: "To every device of this user.") var user: String?
    @Option(help: "To this installation.") var installation: String?
    @Option(help: "To the users that this file names, one in each line; - for standard input.") var usersFile: String?
    @Option(help: "To the installations that this file names, one in each line; - for standard input.") var installationsFile: String?
    @Option(help: "The alert's title.") var title: String?
    @Option(help: "The alert's body.") var body: String?
    @Option(help: "A file with the APNs payload, a JSON object.") var payload: String?
    @Option(help: "now, soon or bulk.") var lane: String?
    @Option(help: "Nothing is sent after this many seconds.") var ttlSeconds: Int?
    @Option(help: "The same key again sends nothing new and gives the same answer.") var idempotencyKey: String?
    @Flag(help: "Devices with PushClient report that they showed, opened or dismissed it.") var deviceReceipts = false
    @Flag(help: "Stay until every delivery has its outcome, and show them.") var wait = false

    func validate() throws {
        let (one, many) = ([user, installation], [usersFile, installationsFile])
        let options = one + many + [title, body, payload, lane, ttlSeconds.map(String.init)]
        if file != nil {
            guard options.allSatisfy({ $0 == nil }), !deviceReceipts else {
                throw ValidationError("with --file, everything stands in the file")
            }
            return
        }
        guard (one + many).count(where: { $0 != nil }) == 1 else {
            throw ValidationError("give --file, or one of --user, --installation, --users-file and --installations-file")
        }
        guard (many + [payload]).count(where: { $0 == "-" }) <= 1 else { throw ValidationError("standard input can be read once") }
        guard (payload == nil) != (title == nil && body == nil) else { throw ValidationError("give --title/--body or --payload") }
    }

    func run() async throws {
        let (request, isUpload) = try request()
        let path = "/v1/apps/\(app.percentEncoded)/notifications\(isUpload ? "/upload" : "")"
        try await connection.withClient { client in
            let accepted = try await client.tree(.init(.post, path, json: request, idempotencyKey: idempotencyKey))
            guard let id = accepted["id"]?.stringValue else { throw CommandFailure("the notification was accepted without an id") }
            if !wait || !output.isJSON { try output.show(accepted, receiptLine(accepted)) }
            for warning in accepted["warnings"]?.arrayValue ?? [] { StandardError.write("\(warningLine(warning))\n") }
            guard wait else { return }
            let status = try await Interruption.orResult(of: { [app] in
                _ = try await client.app(app).end(of: id)
                return try await client.get("/v1/apps/\(app.percentEncoded)/notifications/\(id.percentEncoded)")
            }) {
                CommandFailure("interrupted; the notification goes on, see pushctl status \(app) \(id)")
            }
            let reach = Reach(status)
            try output.show(status, "\(statusText(status))\n\(reach)")
            if let code = reach.exitCode { throw code }
        }
    }

    /// How many the ordinary request takes.
    private static let maximumListed = 1000

    private func request() throws -> (json: [UInt8], isUpload: Bool) {
        if let file { return (try CommandInput.read(file), false) }
        let content = try content()
        let (users, installations) = (try Self.lines(of: usersFile), try Self.lines(of: installationsFile))
        var writer = JSONWriter()
        writer.object { request in
            request.object("to") { to in
                to.field("user", user)
                to.field("installation", installation)
                if let users { to.field("users", users) }
                if let installations { to.field("installations", installations) }
            }
            request.field("payload", raw: content)
            request.field("lane", lane)
            if deviceReceipts { request.field("device_receipts", true) }
            request.field("ttl_seconds", ttlSeconds)
        }
        return (writer.bytes, (users ?? installations ?? []).count > Self.maximumListed)
    }

    /// The lines of a file that are not empty; nil without a file.
    static func lines(of file: String?) throws -> [String]? {
        guard let file else { return nil }
        let lines = try CommandInput.read(file).withoutByteOrderMark.split(separator: UInt8(ascii: "\n")).map { line in
            line.last == UInt8(ascii: "\r") ? line.dropLast() : line
        }
        return try lines.filter { !$0.isEmpty }.map { line in
            guard let text = String(validating: line, as: UTF8.self) else { throw CommandFailure("a line of \(file) is not UTF-8") }
            return text
        }
    }

    private func content() throws -> [UInt8] {
        if let payload { return try CommandInput.read(payload) }
        var writer = JSONWriter()
        writer.object { payload in
            payload.object("aps") { aps in
                aps.object("alert") { alert in
                    alert.field("title", title)
                    alert.field("body", body)
                }
            }
        }
        return writer.bytes
    }
}

/// The share of an ended notification's deliveries that APNs accepted.
struct Reach: CustomStringConvertible {
    let accepted: Int64
    let total: Int64
    /// More deliveries would have followed.
    let isCutShort: Bool

    init(_ status: JSONValue) {
        accepted = status["counts"]?["accepted"]?.integerValue ?? 0
        total = status["counts"]?["total"]?.integerValue ?? 0
        isCutShort = status["state"]?.stringValue != "completed"
    }

    /// nil if every device was reached.
    var exitCode: ExitCode? {
        if accepted == 0 { return ExitCode(3) }
        return accepted < total || isCutShort ? ExitCode(2) : nil
    }

    var description: String {
        guard total > 0 else { return "No device was reached: there was none to send to." }
        return "APNs accepted \(accepted) of \(counted(total, "delivery", "deliveries"))."
    }
}

/// The answer to a notification that was accepted, in one line for a person.
func receiptLine(_ accepted: JSONValue) -> String {
    let deliveries = accepted["deliveries"]?.integerValue.map { counted($0, "delivery", "deliveries") }
    return [accepted["id"]?.stringValue ?? "?", accepted["state"]?.stringValue ?? "?", deliveries ?? "its devices are found now"]
        .joined(separator: "  ")
}

/// A warning of the service, in one line for a person.
func warningLine(_ warning: JSONValue) -> String {
    "warning: \(warning["pointer"]?.stringValue ?? "?"): \(warning["detail"]?.stringValue ?? "?") (\(warning["code"]?.stringValue ?? "?"))"
}
