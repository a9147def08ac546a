import Foundation
import TestSupport

/// An authority of this run and its certificates for PostgreSQL and RabbitMQ: the right one, and some that no client may accept.
struct ServerCertificates: Sendable {
    enum Kind: String, CaseIterable {
        case right
        /// For another name.
        case misnamed
        case expired
        /// For the right name, by an authority that no client trusts.
        case stranger
    }

    let folder: String
    var authority: String { "\(folder)/ca.pem" }
    var certificate: String { "\(folder)/server.pem" }
    var key: String { "\(folder)/server.key" }

    /// Makes all of them; the right one is shown.
    init(folder: String) async throws {
        self.folder = folder
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try await Self.makeAuthority("\(folder)/ca")
        try await Self.makeAuthority("\(folder)/stranger-ca")
        try await Tool.run(
            "/usr/bin/openssl",
            [
                "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=server", "-keyout", key, "-out",
                "\(folder)/csr",
            ])
        for kind in Kind.allCases { try await make(kind) }
        // PostgreSQL requires that it or root owns its key.
        if geteuid() == 0 {
            try await Tool.run(ServerPrograms.chosen.chown(["root:postgres", key]))
            try await Tool.run("/usr/bin/chmod", ["640", key])
        }
        try show(.right)
    }

    /// Puts a certificate into the file that both servers reload.
    func show(_ kind: Kind) throws {
        try Data(contentsOf: URL(filePath: "\(folder)/\(kind.rawValue).pem")).write(to: URL(filePath: certificate))
    }

    private static func makeAuthority(_ path: String) async throws {
        try await Tool.run(
            "/usr/bin/openssl",
            [
                "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=chaos",
                "-keyout",
                "\(path).key", "-out", "\(path).pem",
            ])
    }

    private func make(_ kind: Kind) async throws {
        let names = kind == .misnamed ? "DNS:elsewhere.example" : "DNS:localhost,IP:127.0.0.1"
        let extensions = "\(folder)/\(kind.rawValue).extensions"
        try Data("subjectAltName=\(names)\nbasicConstraints=CA:FALSE\n".utf8).write(to: URL(filePath: extensions))
        let authority = "\(folder)/\(kind == .stranger ? "stranger-ca" : "ca")"
        try await Tool.run(
            "/usr/bin/openssl",
            [
                "x509", "-req", "-in", "\(folder)/csr", "-CA", "\(authority).pem", "-CAkey", "\(authority).key", "-CAcreateserial", "-days",
                kind == .expired ? "-1" : "2", "-extfile", extensions, "-out", "\(folder)/\(kind.rawValue).pem",
            ])
    }
}
