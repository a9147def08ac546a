package import ArgumentParser

/// The operator's command line. Everything it does goes through the token service's HTTP API.
package struct PushCommand: AsyncParsableCommand {
    package static let configuration = CommandConfiguration(
        commandName: "pushctl",
        abstract: "Operate the push platform: apps, keys, installations, users, bulk transfer, notifications, and a demonstration.",
        discussion: """
            Where the token service is and who is asking comes from --url and --key-file, or from the environment variables PUSH_URL and \
            PUSH_KEY_FILE (or PUSH_KEY, the key itself). A command that works inside an app takes the app as its first argument.
            Exit codes: 0 done, 2 an import went through but some of its lines failed, 1 refused or failed (the reason is on standard error), 64 wrong usage.
            """,
        subcommands: [
            AppsCommand.self,
            KeysCommand.self,
            InstallationsCommand.self,
            UsersCommand.self,
            ImportCommand.self,
            ExportCommand.self,
            QuarantineCommand.self,
            DeadCommand.self,
            SendCommand.self,
            ValidateCommand.self,
            StatusCommand.self,
            NotificationsCommand.self,
            CancelCommand.self,
            HoldCommand.self,
            QuietHoursCommand.self,
            WebhooksCommand.self,
            DemoCommand.self,
        ])

    package init() {}
}
