import Foundation

/// One program and its arguments.
package struct ServerCommand: Sendable {
    package let executable: String
    package let arguments: [String]

    package init(executable: String, arguments: [String] = []) {
        self.executable = executable
        self.arguments = arguments
    }
}

/// How to run the programs of RabbitMQ and PostgreSQL: those of this machine, or those in the root folder of another Debian. `chroot` and
/// `setpriv` become the program that they start, so the process id is the server's.
package struct ServerPrograms: Sendable {
    /// The choice of `deploy/test` and `deploy/chaos` (`deploy/scripts/debian-servers.sh`, which also makes every path the same inside).
    package static let chosen = ServerPrograms(root: ProcessInfo.processInfo.environment["PUSH_SERVERS_ROOT"])

    private let root: String?

    /// - Parameter root: nil for the programs of this machine.
    package init(root: String?) { self.root = root }

    /// One of RabbitMQ's programs. The ones in the path are scripts that require the service's user.
    package func rabbitMQ(_ program: String, _ arguments: [String] = []) -> ServerCommand {
        inRoot(["/usr/lib/rabbitmq/bin/\(program)"] + arguments)
    }

    /// Erlang's port mapper, of the version that RabbitMQ runs on.
    package func portMapper(_ arguments: [String]) -> ServerCommand { inRoot(["/usr/bin/epmd"] + arguments) }

    /// One of the newest PostgreSQL's programs. If this process is root, it runs as the account `postgres`, because PostgreSQL refuses
    /// root.
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

    /// `chown`, with the account numbers of the system where the servers run.
    package func chown(_ arguments: [String]) -> ServerCommand { inRoot(["/usr/bin/chown"] + arguments) }

    private static let chroot = "/usr/sbin/chroot"

    private func inRoot(_ words: [String]) -> ServerCommand {
        guard let root else { return ServerCommand(executable: words[0], arguments: Array(words.dropFirst())) }
        return ServerCommand(executable: Self.chroot, arguments: [root] + words)
    }
}
