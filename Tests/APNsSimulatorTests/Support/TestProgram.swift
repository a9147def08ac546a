import AsyncHTTPClient
import Foundation
import NIOCore
import OpenSSL
import StrictJSON
import TestIdentity
import TestServers
import Testing

/// The built `apns-simulator`, run to its end.
struct TestProgram {
    let status: Int32
    let output: String
    let errors: String

    /// Where the built programs are.
    static func path() throws -> String { try TestServers.programs() + "/apns-simulator" }

    /// - Parameter settings: The environment of the program, beside PATH.
    static func run(_ arguments: [String], settings: [String: String] = [:]) throws -> TestProgram {
        let process = try process(arguments, settings: settings)
        let (output, errors) = (Pipe(), Pipe())
        process.standardOutput = output
        process.standardError = errors
        try process.run()
        // The program prints little, so neither pipe fills while the other is read.
        let said = output.fileHandleForReading.readDataToEndOfFile()
        let complained = errors.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return TestProgram(
            status: process.terminationStatus, output: String(decoding: said, as: UTF8.self),
            errors: String(decoding: complained, as: UTF8.self))
    }

    /// - Parameter limits: Options of the shell's `ulimit`; nil is none.
    static func process(_ arguments: [String], settings: [String: String], limits: String? = nil) throws -> Process {
        let process = Process()
        if let limits {
            process.executableURL = URL(filePath: "/bin/sh")
            process.arguments = ["-c", "ulimit \(limits); exec \"$0\" \"$@\"", try path()] + arguments
        } else {
            process.executableURL = URL(filePath: try path())
            process.arguments = arguments
        }
        process.environment = settings.merging(["PATH": "/usr/bin:/bin", "SWIFT_BACKTRACE": "enable=no"]) { own, _ in own }
        process.standardInput = FileHandle.nullDevice
        return process
    }
}

/// The program while it serves, on free ports. It ends with this object.
final class RunningProgram {
    private let process: Process
    private let errors = Pipe()
    private var log = ""
    private var ports: [String: Int] = [:]

    /// Returns when the program listens.
    init(journalFile: String = "", limits: String) throws {
        let identity = try TestIdentity.shared.get()
        let folder = identity.directory + "/" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try Data(identity.key.publicKey.pem().utf8).write(to: URL(filePath: folder + "/key.pub"))
        let keys = #"""
            {"v":1,"keys":[{"team_id":"\#(TestIdentity.teamID)","key_id":"\#(TestIdentity.keyID)","public_key_file":"key.pub",
                            "environments":["production","sandbox"]}]}
            """#
        try Data(keys.utf8).write(to: URL(filePath: folder + "/keys.json"))
        process = try TestProgram.process(
            ["serve"],
            settings: [
                "TLS_CERTIFICATE_FILE": identity.certificateFile, "TLS_KEY_FILE": identity.keyFile, "KEYS_FILE": folder + "/keys.json",
                "PRODUCTION_PORT": "0", "SANDBOX_PORT": "0", "CONTROL_PORT": "0", "JOURNAL_FILE": journalFile,
            ], limits: limits)
        process.standardOutput = FileHandle.nullDevice
        process.standardError = errors
        try process.run()
        try readPorts()
    }

    deinit { if process.isRunning { process.terminate() } }

    var id: Int32 { process.processIdentifier }

    func port(_ name: String) -> Int { ports[name] ?? 0 }

    private func readPorts() throws {
        while true {
            let arrived = errors.fileHandleForReading.availableData
            try #require(!arrived.isEmpty, "the program has ended: \(log)")
            log += String(decoding: arrived, as: UTF8.self)
            guard let line = log.split(separator: "\n").first(where: { $0.contains("port.production") && $0.hasSuffix("}") }) else {
                continue
            }
            let fields = try JSONValue.parse(Array(line.utf8))
            for name in ["production", "sandbox", "control"] { ports[name] = fields["port." + name]?.stringValue.flatMap { Int($0) } }
            return
        }
    }

    /// The answer of the control API, with any status.
    func control(_ path: String) async throws -> JSONValue {
        let request = HTTPClientRequest(url: "http://127.0.0.1:\(port("control"))\(path)")
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(30))
        return try JSONValue.parse(Array(try await response.body.collect(upTo: 1 << 20).readableBytesView))
    }

    /// Stops it in good order.
    /// - Returns: its whole log.
    func end() -> String {
        process.terminate()
        log += String(decoding: errors.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return log
    }
}
