import Foundation
import Synchronization
import TestSupport

/// One program of the run. It is started, signalled and ended by its own process id, and started again a second after it died, as by an
/// operator's supervisor. All its lives print to one log.
final class OwnedProgram: Sendable {
    /// How long the supervisor waits before it starts a dead program again.
    static let restartDelay = Duration.seconds(1)

    private struct State {
        var process: Process?
        /// True if the supervisor must start it again.
        var isWanted = false
        var starts = 0
        var command: ServerCommand
    }

    let name: String
    let logPath: String
    private let machine: Machine?
    private let environment: [String: String]
    /// The folder for files that it writes by itself, such as Erlang's crash dump.
    private let folder: String
    private let register: ProcessList
    private let state: Mutex<State>

    /// - Parameters:
    ///   - machine: Where it runs; nil for where this program runs.
    ///   - environment: All of it but PATH.
    ///   - folder: Its working directory, and where the log goes, as NAME.log.
    init(
        _ name: String, _ command: ServerCommand, on machine: Machine? = nil, environment: [String: String] = [:], folder: String,
        register: ProcessList
    ) throws {
        self.name = name
        self.machine = machine
        state = Mutex(State(command: command))
        // A crash must end the program at once, without minutes for a stack trace.
        self.environment = environment.merging(["PATH": "/usr/bin:/bin", "SWIFT_BACKTRACE": "enable=no"]) { own, _ in own }
        (self.folder, self.register) = (folder, register)
        logPath = "\(folder)/\(name).log"
        try Data().write(to: URL(filePath: logPath))
    }

    /// Nil while it is dead.
    var processID: Int32? { state.withLock { $0.process?.processIdentifier } }

    /// How often it has been started.
    var starts: Int { state.withLock { $0.starts } }

    /// Uses this program from its next start on.
    func replace(with command: ServerCommand) { state.withLock { $0.command = command } }

    /// Starts it, and from now on again whenever it dies.
    func start() throws {
        state.withLock { $0.isWanted = true }
        try begin()
    }

    private func begin() throws {
        let process = Process()
        // Swift's threads block signals, and their children would inherit that: a shell would never learn of its child's end.
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["--default-signal"] + state.withLock { $0.command.words(on: machine) }
        process.environment = environment
        process.currentDirectoryURL = URL(filePath: folder)
        let log = try FileHandle(forWritingTo: URL(filePath: logPath))
        try log.seekToEnd()
        (process.standardOutput, process.standardError, process.standardInput) = (log, log, FileHandle.nullDevice)
        process.terminationHandler = { [weak self] _ in self?.died() }
        try state.withLock { state in
            guard state.isWanted, state.process == nil else { return }
            try process.run()
            state.process = process
            state.starts += 1
            register.add(name, process.processIdentifier)
        }
    }

    private func died() {
        let isWanted = state.withLock { state in
            state.process = nil
            return state.isWanted
        }
        guard isWanted else { return }
        Task {
            try? await Task.sleep(for: Self.restartDelay)  // no task cancels this
            do { try self.begin() } catch { say("\(self.name) could not be started again: \(error)") }
        }
    }

    /// Does not start it again when it dies.
    func abandon() { state.withLock { $0.isWanted = false } }

    /// - Returns: the id of the process that got it; nil where there is none.
    @discardableResult
    func signal(_ number: Int32) -> Int32? {
        state.withLock { state in
            guard let process = state.process, process.isRunning else { return nil }
            kill(process.processIdentifier, number)
            return process.processIdentifier
        }
    }

    /// Ends it for good: sends SIGTERM or another signal, and SIGKILL if that takes too long. Then sends SIGKILL to the rest of its process
    /// group, such as a node that its script just started. `Process` makes each program the leader of its own group.
    /// - Returns: whether it went within its time.
    @discardableResult
    func stop(_ number: Int32 = SIGTERM, patience: Duration = .seconds(25)) async -> Bool {
        let group = state.withLock { state in
            state.isWanted = false
            return state.process?.processIdentifier
        }
        defer { if let group { kill(-group, SIGKILL) } }
        signal(SIGCONT)
        guard signal(number) != nil else { return true }
        if await isGone(within: patience) { return true }
        signal(SIGKILL)
        // If the group still has a process, it is a child, and there is nothing to wait for.
        _ = await isGone(within: .seconds(5))
        return false
    }

    private func isGone(within patience: Duration) async -> Bool {
        (try? await waitUntil("\(name) is gone", within: patience) { processID == nil }) != nil
    }

    /// The end of its log, for a person.
    var lastWords: String {
        let text = (try? String(contentsOfFile: logPath, encoding: .utf8)) ?? "(its log cannot be read)"
        return String(text.suffix(2000))
    }
}
