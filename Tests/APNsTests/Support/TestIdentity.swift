import Foundation
import OpenSSL
import Testing

/// A self-signed certificate for `localhost`, one of a stranger, and a provider's key, all made once per run.
struct TestIdentity: Sendable {
    static let teamID = "TEAM000001"
    static let keyID = "KEY0000001"

    let directory: String
    let key: ES256PrivateKey

    var certificateFile: String { directory + "/server.pem" }
    var keyFile: String { directory + "/server.key" }
    /// For another name, by another authority.
    var strangerFile: String { directory + "/stranger.pem" }
    var strangerKeyFile: String { directory + "/stranger.key" }

    /// The certificate of a client.
    var clientFile: String { directory + "/client.pem" }
    var clientKeyFile: String { directory + "/client.key" }

    func clientCertificate() throws -> ClientCertificate {
        try ClientCertificate(
            pem: Array(Data(contentsOf: URL(filePath: clientFile))), key: Array(Data(contentsOf: URL(filePath: clientKeyFile))))
    }

    static let shared = Result { try TestIdentity() }

    private init() throws {
        let url = FileManager.default.temporaryDirectory.appending(path: "apns-tests-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
        directory = url.path()
        key = try ES256PrivateKey.generate()
        try makeCertificate("server", "subjectAltName=DNS:localhost,IP:127.0.0.1")
        try makeCertificate("client", "subjectAltName=DNS:client.example")
        try makeCertificate("stranger", "subjectAltName=DNS:elsewhere.example")
    }

    private func makeCertificate(_ name: String, _ extensions: String) throws {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
            "/CN=\(name)",
            "-addext", extensions, "-keyout", "\(directory)/\(name).key", "-out", "\(directory)/\(name).pem",
        ]
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0)
    }
}
