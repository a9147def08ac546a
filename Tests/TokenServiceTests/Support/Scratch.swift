import Foundation
import PushModel

/// A directory of a test's own, removed with this object, and the `openssl` program run in it: the second opinion in these tests.
final class Scratch: Sendable {
    private let directory: URL

    init() throws {
        directory = FileManager.default.temporaryDirectory.appending(path: "push-scratch-\(PushID.random())")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: directory) }

    func path(_ name: String) -> String { directory.appending(path: name).path }
    func write(_ name: String, _ bytes: [UInt8]) throws { try Data(bytes).write(to: directory.appending(path: name)) }
    func read(_ name: String) throws -> [UInt8] { try Array(Data(contentsOf: directory.appending(path: name))) }

    struct Failure: Error { let arguments: String, status: Int32 }

    /// Runs `openssl` with arguments that hold no spaces.
    func openssl(_ arguments: String) throws {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["openssl"] + arguments.split(separator: " ").map(String.init)
        process.currentDirectoryURL = directory
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Failure(arguments: arguments, status: process.terminationStatus) }
    }

    /// A certificate that is its own authority, `NAME.pem` and `NAME.key`.
    func makeCertificate(_ name: String, for alternativeNames: String) throws -> (certificate: String, key: String) {
        try openssl(
            """
            req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=\(name) -addext \
            subjectAltName=\(alternativeNames) -keyout \(name).key -out \(name).pem
            """
        )
        return (path("\(name).pem"), path("\(name).key"))
    }

    /// What `webhook-signature` should be for one secret, by openssl.
    func signature(id: String, timestamp: String, body: [UInt8], secret: String) throws -> String {
        guard let key = Data(base64Encoded: String(secret.dropFirst("whsec_".count))) else { throw Failure(arguments: "secret", status: 0) }
        try write("content", Array("\(id).\(timestamp).".utf8) + body)
        let hex = key.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        try openssl("dgst -sha256 -mac HMAC -macopt hexkey:\(hex) -binary -out mac content")
        return "v1," + Data(try read("mac")).base64EncodedString()
    }
}
