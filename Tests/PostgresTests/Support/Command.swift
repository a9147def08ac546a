import Foundation

/// Runs a program to its end.
enum Command {
    struct Failure: Error, CustomStringConvertible { let description: String }

    static func run(_ path: String, _ arguments: [String], in directory: URL) throws {
        let process = Process()
        process.executableURL = URL(filePath: path)
        process.arguments = arguments
        process.currentDirectoryURL = directory
        let output = FileHandle(forWritingAtPath: "/dev/null")
        let errors = Foundation.Pipe()
        process.standardOutput = output
        process.standardError = errors
        try process.run()
        let words = try errors.fileHandleForReading.readToEnd()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw Failure(description: "\(path) \(arguments.first ?? ""): \(String(decoding: words ?? Data(), as: UTF8.self))")
        }
    }
}
