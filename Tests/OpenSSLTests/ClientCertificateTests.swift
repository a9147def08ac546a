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

    @Test("The error for a .p12 with a cipher that OpenSSL 3 does not read names the conversion") func legacyPKCS12() throws {
        try scratch.openssl("pkcs12 -export -legacy -in shop.pem -inkey shop.key -passout pass:sesame -out old.p12")
        let container = try scratch.read("old.p12")
        let error = #expect(throws: TLSError.self) { try ClientCertificate(pkcs12: container, passphrase: "sesame") }
        #expect(error?.message.contains("openssl pkcs12 -legacy -nodes -in FILE -out FILE.pem") == true)
        // Its integrity is checked before its content is read.
        let closed = #expect(throws: TLSError.self) { try ClientCertificate(pkcs12: container) }
        #expect(closed?.message.hasPrefix("it is encrypted, and there is no passphrase for it") == true)
        let wrong = #expect(throws: TLSError.self) { try ClientCertificate(pkcs12: container, passphrase: "open") }
        #expect(wrong?.message.hasPrefix("the passphrase does not open it") == true)
    }

    @Test("The words for an encrypted key tell no passphrase from a wrong one") func lockedKey() throws {
        try scratch.openssl("pkey -in shop.key -aes256 -passout pass:sesame -out locked.key")
        let (pem, key) = (try scratch.read("shop.pem"), try scratch.read("locked.key"))
        func message(_ passphrase: String?) -> String? {
            #expect(throws: TLSError.self) { try ClientCertificate(pem: pem, key: key, passphrase: passphrase) }?.message
        }
        #expect(message(nil)?.hasPrefix("it is encrypted, and there is no passphrase for it") == true)
        #expect(message("open")?.hasPrefix("the passphrase does not open it") == true)
    }

    @Test("A chain in any order is shown as its own: the key's certificate, then each issuer") func chainOrder() throws {
        try scratch.write("ca.ext", Array("basicConstraints=critical,CA:TRUE\n".utf8))
        for (name, issuer) in [("upper", "root"), ("lower", "upper")] {
            try scratch.openssl(
                "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=\(name) -keyout \(name).key -out \(name).csr")
            try scratch.openssl(
                "x509 -req -in \(name).csr -CA \(issuer).pem -CAkey \(issuer).key -CAcreateserial -days 2 -extfile ca.ext -out \(name).pem")
        }
        try scratch.makeCertificate("leaf", by: "lower", alternativeNames: "DNS:leaf")
        let key = try scratch.read("leaf.key")
        for order in [["leaf", "lower", "upper"], ["upper", "lower", "leaf"], ["lower", "leaf", "upper"]] {
            let pem = try order.flatMap { try scratch.read("\($0).pem") }
            // The server knows the root alone, so the intermediate certificates must have come as well.
            #expect(try commonName(shown: ClientCertificate(pem: pem, key: key)) == "leaf", "\(order)")
        }
    }

    @Test("A certificate after the first that is torn is an error, and not the end of the chain") func tornChain() throws {
        let torn = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
        let pem = try scratch.read("shop.pem") + Array(torn.utf8)
        let error = #expect(throws: TLSError.self) { try ClientCertificate(pem: pem, key: scratch.read("shop.key")) }
        #expect(error?.operation == "certificate")
    }

    @Test("A client certificate needs its own key") func ownKey() throws {
        let key = try scratch.read("server.key")
        let error = #expect(throws: TLSError.self) { try ClientCertificate(pem: scratch.read("shop.pem"), key: key) }
        #expect(error?.code == .file)
        #expect(error?.message == "the certificate does not belong to the private key")
        let both = try scratch.read("shop.pem") + scratch.read("root.pem")
        let other = #expect(throws: TLSError.self) { try ClientCertificate(pem: both, key: key) }
        #expect(other?.message == "none of the 2 certificates belongs to the private key")
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
