import Foundation
import Testing

/// The built `apns-simulator`, run to its end.
struct TestProgram {
    let status: Int32
    let output: String
    let errors: String

    /// Where the built programs are.
    static func path() throws -> String {
        let folder = try #require(
            ProcessInfo.processInfo.environment["PUSH_TEST_PROGRAMS"],
            "PUSH_TEST_PROGRAMS (the folder of the built programs) is not set: run the tests with deploy/test")
        return folder + "/apns-simulator"
    }

    /// - Parameter settings: Nothing else of this process's environment reaches it but PATH.
    static func run(_ arguments: [String], settings: [String: String] = [:]) throws -> TestProgram {
        let process = try process(arguments, settings: settings)
        let (output, errors) = (Pipe(), Pipe())
        process.standardOutput = output
        process.standardError = errors
        try process.run()
        // Little is said: neither pipe fills while the other is read.
        let said = output.fileHandleForReading.readDataToEndOfFile()
        let complained = errors.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return TestProgram(
            status: process.terminationStatus, output: String(decoding: said, as: UTF8.self),
            errors: String(decoding: complained, as: UTF8.self))
    }

    /// - Parameter fileLimit: Of RLIMIT_FSIZE, in 512 bytes; nil is none.
    static func process(_ arguments: [String], settings: [String: String], fileLimit: Int? = nil) throws -> Process {
        let process = Process()
        if let fileLimit {
            process.executableURL = URL(filePath: "/bin/sh")
            process.arguments = ["-c", "ulimit -f \(fileLimit); exec \"$0\" \"$@\"", try path()] + arguments
        } else {
            process.executableURL = URL(filePath: try path())
            process.arguments = arguments
        }
        process.environment = settings.merging(["PATH": "/usr/bin:/bin", "SWIFT_BACKTRACE": "enable=no"]) { own, _ in own }
        process.standardInput = FileHandle.nullDevice
        return process
    }
}
