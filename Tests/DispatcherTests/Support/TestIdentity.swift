import Foundation
import OpenSSL
import Testing

/// A certificate for this machine that is its own authority, and the keys of two teams: made once per run.
struct TestIdentity: Sendable {
    static let teamID = "TEAM000001"
    static let keyID = "KEY0000001"
    static let strangerKeyID = "KEY0000002"

    let directory: String
    let key: ES256PrivateKey

    var certificateFile: String { directory + "/server.pem" }
    var keyFile: String { directory + "/server.key" }
    var credentialsFile: String { directory + "/credentials.json" }

    static let shared = Result { try TestIdentity() }

    private init() throws {
        let url = FileManager.default.temporaryDirectory.appending(path: "dispatcher-tests-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
        directory = url.path()
        key = try ES256PrivateKey.generate()
        try makeCertificate()
        try write(try key.pem(), to: "shop.p8")
        // The simulator does not know this key, as Apple does not know a revoked one.
        try write(try ES256PrivateKey.generate().pem(), to: "other.p8")
        try write(
            """
            {"v": 1, "credentials": [
              {"name": "shop", "team_id": "\(Self.teamID)", "key_id": "\(Self.keyID)", "key_file": "shop.p8",
               "environments": ["production", "sandbox"], "apps": ["shop", "cafe"]},
              {"name": "other", "team_id": "\(Self.teamID)", "key_id": "\(Self.strangerKeyID)", "key_file": "other.p8",
               "environments": ["production"], "apps": ["other"]}
            ]}
            """, to: "credentials.json")
    }

    /// A folder of one test, for credentials that change.
    func makeFolder() throws -> String {
        let folder = "\(directory)/\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        return folder
    }

    /// Runs `openssl` in a folder, with arguments that hold no spaces.
    static func openssl(_ arguments: String, in folder: String) throws {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["openssl"] + arguments.split(separator: " ").map(String.init)
        process.currentDirectoryURL = URL(filePath: folder)
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0, "openssl must be installed")
    }

    @discardableResult
    func write(_ text: String, to file: String) throws -> String {
        let path = "\(directory)/\(file)"
        try Data(text.utf8).write(to: URL(filePath: path))
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
        return path
    }

    private func makeCertificate() throws {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
            "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", keyFile, "-out", certificateFile,
        ]
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0, "openssl must be installed")
    }
}
