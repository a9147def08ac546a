import ArgumentParser
import PushAPI
import StrictJSON

extension InstallationsCommand {
    struct Search: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Find who holds or held a token.",
            discussion: """
                The token is read from --token-file, or from standard input: arguments can be seen by every user of this machine and stay \
                in the shell's history.
                """)
        @OptionGroup var connection: ConnectionOptions
        @OptionGroup var output: OutputOptions
        @OptionGroup var options: InstallationOptions
        @Option(help: "A file that holds the token in hex; without it, standard input is read.") var tokenFile: String?
        @Option(help: "production or sandbox; without it, both.") var environment: String?
        @Argument(help: .hidden) var misplaced: [String] = []

        func validate() throws {
            // A token in the app's place would go into a URL, and from there into logs.
            let isToken = options.app.count >= 32 && options.app.allSatisfy(\.isHexDigit)
            guard misplaced.isEmpty, !isToken else {
                throw ValidationError("give the token in --token-file or on standard input: arguments can be seen by others")
            }
        }

        func run() async throws {
            let token = try token()
            let answer = try await connection.withClient { client in
                try await client.post("/v1/apps/\(options.app.percentEncoded)/tokens/search") { body in
                    body.field("token", token)
                    body.field("environment", environment)
                }
            }
            try output.show(answer, Self.text(answer))
        }

        private static func text(_ answer: JSONValue) -> String {
            let holders = answer["installations"]?.arrayValue ?? []
            let former = answer["former_holders"]?.arrayValue ?? []
            guard !holders.isEmpty || !former.isEmpty else { return "No installation is known to hold or have held this token." }
            let now = holders.isEmpty ? "No installation holds it now." : "\(installationTable(holders))"
            return former.isEmpty ? now : "\(now)\n\nFormer holders\n\(formerHolderTable(former))"
        }

        private func token() throws -> String {
            let text: String?
            if let tokenFile {
                text = String(decoding: try InputFile.read(tokenFile), as: UTF8.self)
            } else {
                text = readLine()
            }
            let token = (text ?? "").filter { !$0.isWhitespace }
            guard !token.isEmpty else { throw CommandFailure("no token: give --token-file, or write it to standard input") }
            return token
        }
    }
}
