import OpenSSL
import Testing

@Suite("A certificate that a client shows", .timeLimit(.minutes(5)))
final class ClientCertificateTests {
    private let scratch: Scratch

    init() throws {
        scratch = try Scratch()
        try scratch.makeAuthority("root")
        try scratch.makeCertificate("server", by: "root", alternativeNames: "DNS:push.example")
        try scratch.makeCertificate("shop", by: "root", alternativeNames: "DNS:shop", days: 300)
    }

    private func commonName(shown certificate: ClientCertificate) throws -> String? {
        let trust = scratch.path("root.pem")
        let pair = try Handshake(
            TLSContext.client(trust: .file(trust), clientCertificate: certificate, alpn: ["h2"]),
            TLSContext.server(
                certificateFile: scratch.path("server.pem"), keyFile: scratch.path("server.key"), alpn: ["h2"], clientTrust: trust),
            serverName: "push.example")
        try #require(pair.run(), "\(String(describing: pair.serverError))")
        return pair.server.peerCertificateCommonName
    }

    @Test("A client certificate is read from PEM and shown on request") func fromPEM() throws {
        let certificate = try ClientCertificate(pem: scratch.read("shop.pem"), key: scratch.read("shop.key"))
        #expect(try commonName(shown: certificate) == "shop")
        #expect(certificate.notAfter - certificate.notBefore == 300 * 86_400)
    }

    @Test("A client certificate may share its file with its key and its chain") func oneFile() throws {
        let all = try scratch.read("shop.pem") + scratch.read("root.pem") + scratch.read("shop.key")
        #expect(try commonName(shown: ClientCertificate(pem: all, key: all)) == "shop")
    }

    @Test("A client certificate needs the passphrase of an encrypted key") func encryptedKey() throws {
        try scratch.openssl("pkey -in shop.key -aes256 -passout pass:sesame -out locked.key")
        let (pem, key) = (try scratch.read("shop.pem"), try scratch.read("locked.key"))
        #expect(try commonName(shown: ClientCertificate(pem: pem, key: key, passphrase: "sesame")) == "shop")
        for wrong in [nil, "", "open"] as [String?] {
            let error = #expect(throws: TLSError.self) { try ClientCertificate(pem: pem, key: key, passphrase: wrong) }
            #expect(error?.code == .file)
            #expect(error?.description.contains("sesame") == false)
        }
    }

    @Test("A client certificate is read from PKCS #12") func fromPKCS12() throws {
        try scratch.openssl("pkcs12 -export -in shop.pem -inkey shop.key -certfile root.pem -passout pass:sesame -out shop.p12")
        let container = try scratch.read("shop.p12")
        #expect(try commonName(shown: ClientCertificate(pkcs12: container, passphrase: "sesame")) == "shop")
        #expect(throws: TLSError.self) { try ClientCertificate(pkcs12: container, passphrase: "open") }
        #expect(throws: TLSError.self) { try ClientCertificate(pkcs12: scratch.read("shop.pem")) }
    }

    @Test("A client certificate needs its own key") func ownKey() throws {
        let error = #expect(throws: TLSError.self) {
            try ClientCertificate(pem: scratch.read("shop.pem"), key: scratch.read("server.key"))
        }
        #expect(error?.code == .file)
    }

    @Test(
        "Other bytes make no client certificate",
        arguments: [[], Array("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".utf8)] as [[UInt8]])
    func otherBytes(bytes: [UInt8]) throws {
        #expect(throws: TLSError.self) { try ClientCertificate(pem: bytes, key: scratch.read("shop.key")) }
        #expect(throws: TLSError.self) { try ClientCertificate(pem: scratch.read("shop.pem"), key: bytes) }
        #expect(throws: TLSError.self) { try ClientCertificate(pkcs12: bytes) }
    }
}
