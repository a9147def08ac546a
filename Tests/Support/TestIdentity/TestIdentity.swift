import Foundation
package import OpenSSL

/// A provider's signing key, and self-signed certificates of a server, a client and a stranger. They are made once for each run.
package struct TestIdentity: Sendable {
    package static let teamID = "TEAM000001"
    package static let keyID = "KEY0000001"

    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    package let directory: String
    package let key: ES256PrivateKey

    /// For `localhost` and 127.0.0.1; its own authority.
    package var certificateFile: String { directory + "/server.pem" }
    package var keyFile: String { directory + "/server.key" }
    /// For another name, by another authority.
    package var strangerFile: String { directory + "/stranger.pem" }
    package var strangerKeyFile: String { directory + "/stranger.key" }
    /// The certificate of a client.
    package var clientFile: String { directory + "/client.pem" }
    package var clientKeyFile: String { directory + "/client.key" }

    package static let shared = Result { try TestIdentity() }

    private init() throws {
        directory = FileManager.default.temporaryDirectory.appending(path: "push-identity-\(UUID().uuidString)").path()
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        key = try ES256PrivateKey.generate()
        for (name, subject, addresses) in [
            ("server", "localhost", "DNS:localhost,IP:127.0.0.1"), ("client", "client", "DNS:client.example"),
            ("stranger", "stranger", "DNS:elsewhere.example"),
        ] {
            try Self.openssl(
                """
                req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=\(subject) \
                -addext subjectAltName=\(addresses) -keyout \(name).key -out \(name).pem
                """, in: directory)
        }
    }

    package func clientCertificate() throws -> ClientCertificate {
        try ClientCertificate(
            pem: Array(Data(contentsOf: URL(filePath: clientFile))), key: Array(Data(contentsOf: URL(filePath: clientKeyFile))))
    }

    /// Makes a folder of one test, for credentials that change.
    package func makeFolder() throws -> String {
        let folder = "\(directory)/\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        return folder
    }

    /// Writes a file that only its owner may read.
    @discardableResult
    package func write(_ text: String, to file: String) throws -> String {
        let path = "\(directory)/\(file)"
        try Data(text.utf8).write(to: URL(filePath: path))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
        return path
    }

    /// Runs `openssl` in a folder, with arguments that hold no spaces.
    package static func openssl(_ arguments: String, in folder: String) throws {
        _ = try run(["openssl"] + arguments.split(separator: " ").map(String.init), in: folder)
    }

    /// Runs a program and returns what it printed.
    @discardableResult
    package static func run(_ arguments: String...) throws -> String { try run(arguments, in: nil) }

    private static func run(_ arguments: [String], in folder: String?) throws -> String {
        let process = Process()
        let output = Pipe()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = arguments
        if let folder { process.currentDirectoryURL = URL(filePath: folder) }
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else {
            throw Failure(description: "\(arguments.joined(separator: " ")) ended with \(process.terminationStatus): \(text)")
        }
        return text
    }
}
