import Foundation
import OpenSSL
import Testing

/// A certificate authority, a server's certificate for `localhost`, and a provider's signing key: made once per run, thrown away after.
struct TestIdentity: Sendable {
    static let teamID = "TEAM000001"
    static let keyID = "KEY0000001"

    let directory: String
    let key: ES256PrivateKey

    var certificateFile: String { directory + "/server.pem" }
    var keyFile: String { directory + "/server.key" }

    static let shared = Result { try TestIdentity() }

    private init() throws {
        let url = FileManager.default.temporaryDirectory.appending(path: "apns-simulator-tests-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
        directory = url.path()
        key = try ES256PrivateKey.generate()
        try Self.run(
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
            "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", keyFile, "-out", certificateFile)
    }

    /// Runs a program and returns what it printed.
    @discardableResult
    static func run(_ arguments: String...) throws -> String {
        let process = Process()
        let output = Pipe()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = arguments
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        try #require(process.terminationStatus == 0, "\(arguments.joined(separator: " ")) ended with \(process.terminationStatus): \(text)")
        return text
    }
}

extension ES256PrivateKey {
    /// `bearer ` and a provider token.
    /// - Parameters:
    ///   - issuedAt: UNIX seconds.
    ///   - header, claims: Replace the right ones.
    func bearer(
        teamID: String = TestIdentity.teamID, keyID: String = TestIdentity.keyID, issuedAt: Int64, header: String? = nil,
        claims: String? = nil
    ) throws -> String {
        let header = header ?? #"{"alg":"ES256","kid":"\#(keyID)"}"#
        let claims = claims ?? #"{"iss":"\#(teamID)","iat":\#(issuedAt)}"#
        let signed = Base64URL.encode(Array(header.utf8)) + "." + Base64URL.encode(Array(claims.utf8))
        return try "bearer " + signed + "." + Base64URL.encode(sign(Array(signed.utf8)))
    }
}
