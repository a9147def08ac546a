import Foundation
import Synchronization
import TestSupport

/// One program of the run: started, signalled and ended by its own process id, and started again a second after it died, as an operator's
/// supervisor does. What it prints goes to one log, whatever life it is in.
final class OwnedProgram: Sendable {
    /// How long a supervisor waits before it starts again what has died.
    static let restartDelay = Duration.seconds(1)

    private struct State {
        var process: Process?
        /// Nobody has asked it to stay away.
        var isWanted = false
        var starts = 0
        var command: ServerCommand
    }

    let name: String
    let logPath: String
    private let machine: Machine?
    private let environment: [String: String]
    /// Where it leaves what it writes without being asked, as Erlang does when it dies.
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
        // A crash is to be a death, not minutes of a stack trace being made.
        self.environment = environment.merging(["PATH": "/usr/bin:/bin", "SWIFT_BACKTRACE": "enable=no"]) { own, _ in own }
        (self.folder, self.register) = (folder, register)
        logPath = "\(folder)/\(name).log"
        try Data().write(to: URL(filePath: logPath))
    }

    /// Nil while it is dead.
    var processID: Int32? { state.withLock { $0.process?.processIdentifier } }

    /// How often it has been started.
    var starts: Int { state.withLock { $0.starts } }

    /// From its next start on it is this one.
    func replace(with command: ServerCommand) { state.withLock { $0.command = command } }

    /// Starts it, and from now on again whenever it dies.
    func start() throws {
        state.withLock { $0.isWanted = true }
        try begin()
    }

    private func begin() throws {
        let process = Process()
        // Swift's threads block signals, and what they start would too: a shell that never hears of its child's end.
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
            try? await Task.sleep(for: Self.restartDelay)  // cancelled by nobody
            do { try self.begin() } catch { say("\(self.name) could not be started again: \(error)") }
        }
    }

    /// It is not started again when it dies.
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

    /// Ends it for good: SIGTERM or what is said, and SIGKILL where that takes too long. Then SIGKILL for what is left of its process group, as
    /// a node that its script had just started. `Process` makes each program the leader of a group of its own.
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
        // Whoever has outlived that, a child of it has: nothing to wait for.
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
