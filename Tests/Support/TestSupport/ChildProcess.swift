import Foundation

/// A program that a test started. The test can await it and end it, only by its own process id.
package final class ChildProcess: Sendable {
    package let id: Int32
    private let exited = Signal<Int32>()

    /// - Parameter log: The file for its output.
    package init(_ program: String, _ arguments: [String], _ environment: [String: String], log: String) throws {
        guard FileManager.default.createFile(atPath: log, contents: nil), let output = FileHandle(forWritingAtPath: log) else {
            throw CocoaError(.fileWriteUnknown)
        }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments = arguments
        process.environment = environment
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = output
        process.terminationHandler = { [exited] process in exited.send(process.terminationStatus) }
        try process.run()
        id = process.processIdentifier
    }

    package convenience init(_ command: ServerCommand, _ environment: [String: String], log: String) throws {
        try self.init(command.executable, command.arguments, environment, log: log)
    }

    /// Waits for its end. Call this once.
    package func exit() async throws -> Int32 { try await exited.next() }

    /// Kills it, and waits until it is gone.
    package func end() async {
        kill(id, SIGKILL)
        _ = try? await exit()
    }
}
