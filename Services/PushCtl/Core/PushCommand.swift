package import ArgumentParser
import Observability

/// The operator's command line. Everything it does goes through the token service's HTTP API.
package struct PushCommand: AsyncParsableCommand {
    package static let configuration = CommandConfiguration(
        commandName: "pushctl",
        abstract:
            "Operate the push platform: apps, keys, installations, users, bulk transfer, notifications, channels, and a demonstration.",
        discussion: """
            Where the token service is and who is asking comes from --url and --key-file, or from the environment variables PUSH_URL and \
            PUSH_KEY_FILE (or PUSH_KEY, the key itself). A command that works inside an app takes the app as its first argument. \
            -o json prints the service's answer as one document; for an export, -o names the file.
            Exit codes: 0 done; 1 refused or failed (the reason is on standard error); 2 done in part (some lines of an import or a batch \
            failed, or with send --wait APNs accepted only some deliveries); 3 nothing was there: send --wait reached no device, or users \
            erase or export found nothing; 64 wrong usage; 141 the reader of standard output has gone.
            """,
        version: BuildVersion.current.description,
        subcommands: [
            AppsCommand.self,
            KeysCommand.self,
            AuditCommand.self,
            InstallationsCommand.self,
            UsersCommand.self,
            ImportCommand.self,
            ExportCommand.self,
            ActivitiesCommand.self,
            QuarantineCommand.self,
            DeadCommand.self,
            SendCommand.self,
            SendBatchCommand.self,
            ValidateCommand.self,
            StatusCommand.self,
            NotificationsCommand.self,
            CancelCommand.self,
            HoldCommand.self,
            QuietHoursCommand.self,
            ChannelsCommand.self,
            WebhooksCommand.self,
            DemoCommand.self,
        ])

    package init() {}

    /// ArgumentParser calls a word that is no command an unexpected argument.
    package static func run(_ arguments: [String]) async {
        if let sentence = unknownCommand(in: arguments) { exit(withError: ValidationError(sentence)) }
        await main(arguments)
    }

    /// - Returns: nil if the first words are commands, as far as commands have commands of their own.
    static func unknownCommand(in arguments: [String]) -> String? {
        var type: any ParsableCommand.Type = self
        for word in arguments {
            let commands = type.configuration.subcommands
            guard !commands.isEmpty, !word.hasPrefix("-"), word != "help" else { return nil }
            guard let next = commands.first(where: { name(of: $0) == word }) else {
                let names = commands.map(name)
                let hint = nearestName(to: word, among: names).map { "did you mean \($0)?" }
                return "unknown command \(word); \(hint ?? "it must be one of \(names.joined(separator: ", "))")"
            }
            type = next
        }
        return nil
    }

    private static func name(of type: any ParsableCommand.Type) -> String {
        type.configuration.commandName ?? String(describing: type).lowercased()
    }
}
