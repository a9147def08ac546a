import ArgumentParser
import FoundationEssentials
import NIOCore
import PushAPI
import StrictJSON
import SystemIO

struct UsersCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "users", abstract: "What a person may ask for: to be erased, and to get everything that is stored.",
        subcommands: [Erase.self, Export.self])

    struct Erase: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Erase everything that an app knows of a user. It cannot be undone.",
            discussion: """
                Signs the user out everywhere and removes the installations, tokens, history, notifications and receipts. A call that was \
                interrupted is finished by repeating it. Exit code 3: nothing was stored under this name. The key needs the scope admin.
                """)
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @Argument(help: "The app.") var app: String
        @Argument(help: "The user, as the app calls them.") var user: String
        @Flag(help: "Do not ask.") var yes = false

        func run() async throws {
            if !yes {
                StandardError.write("This erases \(user) from \(app) for ever. Type the user's name to go on: ")
                guard readLine(strippingNewline: true) == user else {
                    throw CommandFailure("that is not the user's name; nothing was done")
                }
            }
            let answer = try await connection.withClient { client in
                try await client.post(try userPath(app, user, "erase")) { $0.field("confirm", user) }
            }
            let isPending = answer["fence"]?.stringValue == "pending"
            let pending = """

                The broker has not confirmed the sign-out yet; the service goes on trying. Repeat the command to see it confirmed.
                """
            try output.show(answer, "\(erasureHeading(answer))\n\(erasureTable(answer))\(isPending ? pending : "")")
            if answer["user_erased"]?.boolValue == false { throw ExitCode(3) }
        }
    }

    struct Export: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Everything that an app knows of a user, as JSON.",
            discussion: """
                Device tokens and payloads in full: keep it as carefully as the database. Exit code 3: nothing is stored under this name. \
                The key needs the scope admin.
                """)
        @OptionGroup var connection: ConnectionOptions
        @Argument(help: "The app.") var app: String
        @Argument(help: "The user, as the app calls them.") var user: String
        @Option(name: .shortAndLong, help: "A new file to write to, readable by you alone; default: standard output.") var output: String?

        func validate() throws { try refuseFormat(output) }

        func run() async throws {
            let path = try userPath(app, user, "export")
            let file = try output.map(newFile) ?? .standardOutput
            let name = output.map { "the file \($0)" } ?? StandardOutput.name
            var beginning: [UInt8] = []
            do {
                try await connection.withClient { client in
                    try await client.download(.init(.post, path, json: JSONWriter.object { _ in })) { piece in
                        let bytes = Array(piece.readableBytesView)
                        beginning += bytes.prefix(4096 - beginning.count)
                        do throws(SystemError) { try file.write(bytes.span) } catch { throw StandardOutput.failure(of: name, error) }
                    }
                }
                if output == nil { try StandardOutput.print("") }
            } catch {
                // A part of a user's data is of no use and must not lie around.
                if let output { remove(output) }
                throw error
            }
            if isEmptyExport(beginning) {
                StandardError.write("nothing is stored of this user in \(app): is the name right?\n")
                throw ExitCode(3)
            }
        }

        private func newFile(_ path: String) throws -> OutputFile {
            do { return try OutputFile(path: path, .new) } catch {
                throw CommandFailure("the file \(path) cannot be made: \(error.reason)")
            }
        }

        private func remove(_ path: String) {
            do { try FileManager.default.removeItem(atPath: path) } catch {
                StandardError.write("the unfinished file \(path) stays behind\n")
            }
        }
    }
}

/// The app chooses the users' names: with any characters, a name is one part of the path.
func userPath(_ app: String, _ user: String, _ verb: String) throws -> String {
    guard !user.isEmpty, user != ".", user != ".." else { throw CommandFailure("this cannot be a user's name") }
    return "/v1/apps/\(app.percentEncoded)/users/\(user.percentEncoded)/\(verb)"
}

/// Makes the output a record: the app, the moment, and the key. The user's name is not repeated.
func erasureHeading(_ answer: JSONValue) -> String {
    let (app, at, key) = (answer.shown("app"), answer.shown("erased_at"), answer.shown("key_id"))
    guard answer["user_erased"]?.boolValue == true else {
        return """
            Nothing was stored in \(app) under this name at \(at), as the key \(key) asked: is the name right, or was the user erased \
            before?
            """
    }
    return "A user of \(app) was erased at \(at), as the key \(key) asked."
}

/// Whether an export, of which this is the beginning, holds nothing.
func isEmptyExport(_ beginning: [UInt8]) -> Bool {
    guard let document = try? JSONValue.parse(beginning) else { return false }
    return document["quiet_hours"] == nil
        && ["installations", "history", "notifications", "activities"].allSatisfy { document[$0]?.arrayValue?.isEmpty == true }
}

extension JSONValue {
    fileprivate func shown(_ name: String) -> String { self[name]?.stringValue ?? "?" }
}

/// How much was erased, one row per kind.
func erasureTable(_ answer: JSONValue) -> Table {
    var table = Table("ERASED", "NUMBER")
    for (kind, name) in [
        ("installations", "installations"), ("tokens", "device tokens"), ("history", "history entries"), ("notifications", "notifications"),
        ("deliveries", "receipts"), ("idempotency_records", "idempotency records"), ("quiet_hours", "quiet hours"),
        ("activities", "Live Activities"), ("list_entries", "entries in lists"),
    ] {
        table.add(name, answer["erased"]?[kind]?.integerValue.map(String.init) ?? "?")
    }
    return table
}
