import Foundation

/// One program and what it is told.
package struct ServerCommand: Sendable {
    package let executable: String
    package let arguments: [String]

    package init(executable: String, arguments: [String] = []) {
        self.executable = executable
        self.arguments = arguments
    }
}

/// How the programs of RabbitMQ and PostgreSQL are run: those of this machine, or those in the root folder of another Debian. `chroot` and
/// `setpriv` become the program that they are told, so the process id is the server's.
package struct ServerPrograms: Sendable {
    /// What `deploy/test` and `deploy/chaos` chose (`deploy/scripts/debian-servers.sh`, which also makes every path mean the same inside).
    package static let chosen = ServerPrograms(root: ProcessInfo.processInfo.environment["PUSH_SERVERS_ROOT"])

    private let root: String?

    /// - Parameter root: nil for those of this machine.
    package init(root: String?) { self.root = root }

    /// One of RabbitMQ's. Those in the path are scripts that insist on being the service's user.
    package func rabbitMQ(_ program: String, _ arguments: [String] = []) -> ServerCommand {
        inRoot(["/usr/lib/rabbitmq/bin/\(program)"] + arguments)
    }

    /// Erlang's port mapper, of the version that RabbitMQ runs on.
    package func portMapper(_ arguments: [String]) -> ServerCommand { inRoot(["/usr/bin/epmd"] + arguments) }

    /// One of the newest PostgreSQL's; where we are root, as the account `postgres`, because PostgreSQL refuses to run as root.
    package func postgres(_ program: String, _ arguments: [String]) throws -> ServerCommand {
        let folder = "/usr/lib/postgresql"
        let versions = try FileManager.default.contentsOfDirectory(atPath: (root ?? "") + folder).compactMap { Int($0) }
        guard let newest = versions.max() else { throw CocoaError(.fileNoSuchFile, userInfo: [NSFilePathErrorKey: folder]) }
        let words = ["\(folder)/\(newest)/bin/\(program)"] + arguments
        if let root { return ServerCommand(executable: Self.chroot, arguments: ["--userspec=postgres:postgres", root] + words) }
        guard geteuid() == 0 else { return ServerCommand(executable: words[0], arguments: arguments) }
        return ServerCommand(
            executable: "/usr/bin/setpriv", arguments: ["--reuid=postgres", "--regid=postgres", "--clear-groups"] + words)
    }

    /// `chown`, by the numbers that the accounts have where the servers run.
    package func chown(_ arguments: [String]) -> ServerCommand { inRoot(["/usr/bin/chown"] + arguments) }

    private static let chroot = "/usr/sbin/chroot"

    private func inRoot(_ words: [String]) -> ServerCommand {
        guard let root else { return ServerCommand(executable: words[0], arguments: Array(words.dropFirst())) }
        return ServerCommand(executable: Self.chroot, arguments: [root] + words)
    }
}
