import OpenSSL
import Testing

@Suite("ES256 keys and signatures", .timeLimit(.minutes(5)))
final class ES256Tests {
    private let scratch: Scratch
    private let message = Array("eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJURUFNIn0".utf8)

    init() throws { scratch = try Scratch() }

    /// A `.p8` file like Apple's, made by the openssl program.
    private func makeKeyFile() throws -> ES256PrivateKey {
        try scratch.openssl("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -pkeyopt ec_param_enc:named_curve -out key.p8")
        try scratch.openssl("pkey -in key.p8 -pubout -out key.pub")
        return try ES256PrivateKey(pemFile: scratch.path("key.p8"))
    }

    @Test("The openssl program accepts our signatures") func ourSignatures() throws {
        let key = try makeKeyFile()
        let signature = try key.sign(message)
        #expect(signature.count == 64)
        try scratch.write("message", message)
        try scratch.write("signature", der(signature))
        #expect(try scratch.openssl("dgst -sha256 -verify key.pub -signature signature message").contains("Verified OK"))
    }

    @Test("The module accepts signatures of the openssl program") func theirSignatures() throws {
        let key = try makeKeyFile()
        try scratch.write("message", message)
        try scratch.openssl("dgst -sha256 -sign key.p8 -out signature message")
        let signature = try scratch.read("signature")
        let known = try ES256PublicKey(pemFile: scratch.path("key.pub"))
        #expect(known.isValid(signature: signature, for: message))
        #expect(key.publicKey.isValid(signature: signature, for: message))
        #expect(!known.isValid(signature: signature, for: message + [0]))
    }

    @Test("Only the right signature of the right key is valid") func validity() throws {
        let key = try ES256PrivateKey.generate()
        let signature = try key.sign(message)
        #expect(key.publicKey.isValid(signature: signature, for: message))
        #expect(key.publicKey.isValid(signature: der(signature), for: message))
        #expect(try !ES256PrivateKey.generate().publicKey.isValid(signature: signature, for: message))
        for index in [0, 31, 32, 63] {
            var forged = signature
            forged[index] ^= 1
            #expect(!key.publicKey.isValid(signature: forged, for: message))
        }
        for wrong in [
            [], [0], [UInt8](repeating: 0, count: 64), Array(signature.dropLast()), signature + [0], [UInt8](repeating: 0xff, count: 64),
        ] {
            #expect(!key.publicKey.isValid(signature: wrong, for: message))
        }
    }

    @Test("Small integers are padded on the left") func padding() throws {
        let key = try ES256PrivateKey.generate()
        var padded = 0
        for number in 0..<1500 {
            let text = Array("\(number)".utf8)
            let signature = try key.sign(text)
            #expect(signature.count == 64)
            // Check every signature: a short integer in the wrong place would not begin with a zero.
            #expect(key.publicKey.isValid(signature: signature, for: text))
            if signature[0] == 0 || signature[32] == 0 { padded += 1 }
        }
        // On average one signature in 128 is padded. None in 1500 happens once in a hundred thousand runs.
        #expect(padded > 0)
    }

    @Test("A key that is written and read again is the same key") func pemRoundTrip() throws {
        let key = try ES256PrivateKey.generate()
        let pem = try key.pem()
        #expect(pem.hasPrefix("-----BEGIN PRIVATE KEY-----"), "PKCS #8, as Apple's files")
        let signature = try ES256PrivateKey(pem: pem).sign(message)
        #expect(try ES256PublicKey(pem: key.publicKey.pem()).isValid(signature: signature, for: message))
    }

    @Test(
        "The module refuses keys of other kinds",
        arguments: [
            "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out other.key",
            "genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out other.key",
            "genpkey -algorithm ED25519 -out other.key",
        ])
    func otherKinds(command: String) throws {
        try scratch.openssl(command)
        let error = #expect(throws: TLSError.self) { try ES256PrivateKey(pemFile: self.scratch.path("other.key")) }
        #expect(error?.code == .key)
        try scratch.openssl("pkey -in other.key -pubout -out other.pub")
        #expect(throws: TLSError.self) { try ES256PublicKey(pemFile: self.scratch.path("other.pub")) }
    }

    @Test("A key with a passphrase is an error, not a question on the terminal") func lockedKey() throws {
        _ = try makeKeyFile()
        try scratch.openssl("pkcs8 -topk8 -in key.p8 -out locked.p8 -passout pass:xyz")
        let error = #expect(throws: TLSError.self) { try ES256PrivateKey(pemFile: self.scratch.path("locked.p8")) }
        #expect(error?.code == .key)
    }

    @Test("Errors never show the content of the file") func hiddenContent() throws {
        let body = try ES256PrivateKey.generate().pem().split(separator: "\n")[1]
        for pem in ["-----BEGIN PRIVATE KEY-----\n\(body.dropLast(9))\n-----END PRIVATE KEY-----\n", String(body), ""] {
            let error = #expect(throws: TLSError.self) { try ES256PrivateKey(pem: pem) }
            #expect(error?.code == .key)
            #expect(error.map { "\($0) \(String(reflecting: $0))".contains(body.prefix(12)) } == false)
        }
        let missing = #expect(throws: TLSError.self) { try ES256PrivateKey(pemFile: "/nowhere/key.p8") }
        #expect(missing?.code == .file && missing?.description.contains("/nowhere/key.p8") == true)
    }

    @Test("Many threads may sign with one key") func manyThreads() async throws {
        let key = try ES256PrivateKey.generate()
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<16 {
                group.addTask {
                    let text = Array("\(number)".utf8)
                    return key.publicKey.isValid(signature: try key.sign(text), for: text)
                }
            }
            for try await valid in group { #expect(valid) }
        }
    }
}

/// R‖S as DER, written here by hand (RFC 3279 section 2.2.3), so that the module does not check its own conversion.
private func der(_ raw: [UInt8]) -> [UInt8] {
    func integer(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
        let digits = Array(bytes.drop { $0 == 0 })
        let positive = digits.first.map { $0 >= 0x80 } ?? true ? [0] + digits : digits
        return [2, UInt8(positive.count)] + positive
    }
    let content = integer(raw[0..<32]) + integer(raw[32..<64])
    return [0x30, UInt8(content.count)] + content
}
