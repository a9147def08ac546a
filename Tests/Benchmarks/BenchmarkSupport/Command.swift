import Foundation

/// A program that runs to its end.
package enum Command {
    /// - Parameters:
    ///   - input: A file to read from.
    ///   - output: A file to write to, instead of the answer.
    package static func run(_ program: String, _ arguments: [String], input: String? = nil, output: String? = nil) throws -> String {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [program] + arguments
        let (said, complaints) = (Pipe(), Pipe())
        process.standardInput = try input.map { try FileHandle(forReadingFrom: URL(filePath: $0)) } ?? FileHandle.nullDevice
        process.standardError = complaints
        if let output {
            try Data().write(to: URL(filePath: output))
            process.standardOutput = try FileHandle(forWritingTo: URL(filePath: output))
        } else {
            process.standardOutput = said
        }
        try process.run()
        let text = output == nil ? String(decoding: said.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self) : ""
        let complaint = String(decoding: complaints.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw BenchmarkError("\(program) failed: \(complaint.suffix(600))") }
        return text
    }
}
