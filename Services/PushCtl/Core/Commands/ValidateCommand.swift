import ArgumentParser
import PushAPI
import PushModel
import StrictJSON

struct ValidateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "validate", abstract: "Say what a notification would do, without sending it.",
        discussion: """
            Reads a whole request, in JSON as POST …/notifications takes it, and shows what would be sent in every locale, to how many \
            devices, why not to others, and what is doubtful. With --apns-file, writes the payload as a file that can be dropped on the \
            iOS simulator (or given to 'xcrun simctl push').
            """)
    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var output: OutputOptions
    @Argument(help: "The app.") var app: String
    @Argument(help: "A file with the whole request; - for standard input.") var file = "-"
    @Option(help: "Write the payload here, for the iOS simulator.") var apnsFile: String?
    @Option(help: "Which locale's payload --apns-file writes: what a device of this locale gets; without it, the default.") var locale:
        String?

    func validate() throws {
        guard locale == nil || apnsFile != nil else { throw ValidationError("--locale says what --apns-file writes") }
        if let locale, LocaleTag(locale) == nil { throw ValidationError("\(locale) is no language tag such as de or zh-Hant") }
    }

    func run() async throws {
        let request = try CommandInput.read(file)
        let answer = try await connection.withClient { client in
            try await client.once(.init(.post, "/v1/apps/\(app.percentEncoded)/notifications/validate", json: request)).accepted()
        }
        let validation = ValidationReport(answer: try answer.json(), bytes: answer.body)
        if let apnsFile {
            let content = try validation.simulatorFile(locale: locale)
            let file = try LineFile(replacing: apnsFile)
            try file.append(line: content[...])
            try file.finish()
        }
        try StandardOutput.print(output.isJSON ? String(decoding: answer.body, as: UTF8.self) : validation.text)
    }
}
