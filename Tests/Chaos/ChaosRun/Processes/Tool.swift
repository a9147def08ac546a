import Foundation
import TestSupport

/// A program that runs to its end while the run goes on.
enum Tool {
    /// One of a server's programs, on a machine or here.
    @discardableResult
    static func run(_ command: ServerCommand, on machine: Machine? = nil, environment: [String: String] = [:]) async throws -> String {
        let words = command.words(on: machine)
        return try await run(words[0], Array(words.dropFirst()), environment: environment)
    }

    /// - Throws: ``ChaosError`` with its error output.
    @discardableResult
    static func run(_ program: String, _ arguments: [String], environment: [String: String] = [:]) async throws -> String {
        try await onOwnThread {
            let process = Process()
            process.executableURL = URL(filePath: program)
            process.arguments = arguments
            process.environment = environment.merging(["PATH": "/usr/bin:/bin:/usr/sbin:/sbin"]) { own, _ in own }
            let output = Pipe()
            (process.standardOutput, process.standardError, process.standardInput) = (output, output, FileHandle.nullDevice)
            try process.run()
            let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
            process.waitUntilExit()
            guard process.terminationStatus == 0 else {
                throw ChaosError("\(program) \(arguments.prefix(3).joined(separator: " ")) failed: \(text.suffix(600))")
            }
            return text
        }
    }
}

/// The reason why the run cannot go on. Faults of the system under test are for the checker.
struct ChaosError: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// Prints a line at once, also through a pipe.
func say(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }
