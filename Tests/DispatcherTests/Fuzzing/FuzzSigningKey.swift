import FoundationEssentials
import OpenSSL

@testable import APNs

/// Files that the credentials file names. Any content is a working credential or an error.
enum FuzzSigningKey {
    /// How the bytes after the first one are read.
    private enum Form: UInt8, CaseIterable { case text, pkcs8, sec1, certificate, certificateInDER, pkcs12 }

    static func run(_ bytes: [UInt8]) {
        guard let first = bytes.first, let form = Form(rawValue: first % UInt8(Form.allCases.count)) else { return }
        let rest = Array(bytes.dropFirst())
        switch form {
        case .text: sign(with: rest)
        case .pkcs8: sign(with: pem(rest, "PRIVATE KEY"))
        case .sec1: sign(with: pem(rest, "EC PRIVATE KEY"))
        case .certificate: attempt { () throws(TLSError) in try ClientCertificate(pem: rest, key: rest) }
        case .certificateInDER:
            let text = pem(rest, "CERTIFICATE")
            attempt { () throws(TLSError) in try ClientCertificate(pem: text, key: text, passphrase: "secret") }
        case .pkcs12: attempt { () throws(TLSError) in try ClientCertificate(pkcs12: rest, passphrase: "secret") }
        }
    }

    private static func sign(with text: [UInt8]) {
        do throws(TLSError) {
            let key = try ES256PrivateKey(pem: String(decoding: text, as: UTF8.self))
            let signer = ProviderTokenSigner(
                APNsCredential(name: "fuzz", kind: .token(teamID: "TEAM000001", keyID: "KEY0000001", key: key)))
            guard let value = try signer?.authorization(issuedAt: 1_800_000_000) else { preconditionFailure("a key signs") }
            let parts = value.dropFirst("bearer ".utf8.count).split(separator: UInt8(ascii: "."))
            precondition(parts.count == 3, "header, claims, signature")
            guard let signature = Base64URL.decode(String(decoding: parts[2], as: UTF8.self)) else {
                preconditionFailure("a signature in base64url")
            }
            // The reader accepts a key with the public half of another key. No server accepts its signatures, so APNs refuses them and the
            // pool pauses.
            _ = key.publicKey.isValid(signature: signature, for: Array(parts[0] + [UInt8(ascii: ".")] + parts[1]))
        } catch {
            _ = error.description
        }
    }

    private static func attempt(_ read: () throws(TLSError) -> ClientCertificate) {
        do throws(TLSError) {
            let certificate = try read()
            _ = certificate.notAfter &- certificate.notBefore
            _ = try TLSContext.client(trust: .file("/dev/null"), clientCertificate: certificate, alpn: ["h2"])
        } catch {
            _ = error.description
        }
    }

    /// Wraps the bytes in PEM, so that the fuzzer reaches the parser behind it.
    private static func pem(_ bytes: [UInt8], _ label: String) -> [UInt8] {
        let text = Data(bytes).base64EncodedString(options: .lineLength64Characters)
        return Array("-----BEGIN \(label)-----\n\(text)\n-----END \(label)-----\n".utf8)
    }
}
