import Foundation
import Glibc
import Synchronization

/// One program of the platform as a process of its own, so that it can be killed like in life. It ends with this object.
final class PlatformProcess: Sendable {
    enum Ending: Equatable { case exited(Int32), killed(Int32) }

    let name: String
    let logPath: String
    private let process: Mutex<Process>
    private let ended: AsyncStream<Ending>

    /// - Parameters:
    ///   - environment: the program's settings; nothing else of this process's environment reaches it but PATH.
    ///   - logName: The end of the log's name: what is meant for people, and may show keys, is no `log`.
    init(
        _ name: String, program: String, arguments: [String] = [], environment: [String: String], logFolder: String, logName: String = "log"
    ) throws {
        self.name = name
        logPath = "\(logFolder)/\(name).\(logName)"
        let process = Process()
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments = arguments
        process.environment = environment.merging(["PATH": "/usr/bin:/bin", "SWIFT_BACKTRACE": "enable=no"]) { own, _ in own }
        try Data().write(to: URL(fileURLWithPath: logPath))
        let log = try FileHandle(forWritingTo: URL(fileURLWithPath: logPath))
        process.standardError = log
        process.standardOutput = log
        process.standardInput = FileHandle.nullDevice
        let (stream, continuation) = AsyncStream.makeStream(of: Ending.self)
        ended = stream
        process.terminationHandler = { process in
            continuation.yield(process.terminationReason == .exit ? .exited(process.terminationStatus) : .killed(process.terminationStatus))
            continuation.finish()
        }
        try process.run()
        self.process = Mutex(process)
    }

    deinit { send(SIGKILL) }

    var id: Int32 { process.withLock { $0.processIdentifier } }
    var isRunning: Bool { process.withLock { $0.isRunning } }

    func send(_ signal: Int32) {
        process.withLock { process in
            guard process.isRunning else { return }
            kill(process.processIdentifier, signal)
        }
    }

    /// Sends SIGKILL and waits for the end.
    func killAndWait() async {
        send(SIGKILL)
        _ = await waitForEnd()
    }

    /// May be called once.
    func waitForEnd() async -> Ending? {
        for await ending in ended { return ending }
        return nil
    }

    var log: String { (try? String(contentsOfFile: logPath, encoding: .utf8)) ?? "" }
}
