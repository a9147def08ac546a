import Foundation

/// `deploy/scripts/check-logs.sh`, which `deploy/chaos` uses as well.
enum LogCheck {
    /// - Parameter markers: Texts that must not be in a log either.
    static func run(_ folder: String, markers: [String] = []) throws -> (status: Int32, words: String) {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "\(repositoryFolder)/deploy/scripts/check-logs.sh")
        process.arguments = [folder]
        if !markers.isEmpty {
            let file = "\(folder)/markers"
            try Data((markers.joined(separator: "\n") + "\n").utf8).write(to: URL(fileURLWithPath: file))
            process.arguments = [folder, "--markers", file]
        }
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let words = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return (process.terminationStatus, words)
    }
}
