import FoundationEssentials
import OpenSSL
import Testing

@Suite("A key file that cannot be used", .timeLimit(.minutes(5)))
final class KeyFileTests {
    private let scratch: Scratch

    init() throws {
        scratch = try Scratch()
        try scratch.openssl("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out good.p8")
    }

    private func message(_ text: [UInt8]) -> String? {
        #expect(throws: TLSError.self) { try ES256PrivateKey(pem: String(decoding: text, as: UTF8.self)) }?.message
    }

    @Test("A key whose line breaks were lost is named so") func lineBreaks() throws {
        let good = String(decoding: try scratch.read("good.p8"), as: UTF8.self)
        #expect(throws: Never.self) { try ES256PrivateKey(pem: good) }
        let missing = "its line breaks are missing: -----BEGIN …----- and -----END …----- are lines of their own"
        #expect(message(Array(good.replacing("\n", with: " ").utf8)) == missing)
        #expect(message(Array(good.replacing("\n", with: "").utf8)) == missing)
        #expect(message(Array(good.replacing("\n", with: "\r").utf8)) == missing)
        // A line break at the end of the file alone.
        #expect(message(Array((good.dropLast().replacing("\n", with: " ") + "\n").utf8)) == missing)
        #expect(
            message(Array(good.replacing("\n", with: "\\n").utf8)) == #"its line breaks are written as \n, two characters: write real ones"#
        )
        #expect(throws: Never.self) { try ES256PrivateKey(pem: good.replacing("\n", with: " \r\n")) }
    }

    @Test("An encrypted key, a public one and a certificate are named so") func otherBlocks() throws {
        try scratch.openssl("pkcs8 -topk8 -in good.p8 -passout pass:secret -out encrypted.p8")
        try scratch.openssl("ec -in good.p8 -aes256 -passout pass:secret -out older.p8")
        for name in ["encrypted.p8", "older.p8"] {
            #expect(message(try scratch.read(name))?.hasPrefix("it is encrypted, and a signing key must not be") == true)
        }
        try scratch.openssl("pkey -in good.p8 -pubout -out public.pem")
        #expect(message(try scratch.read("public.pem")) == "it holds a public key, and a private key is wanted")
        try scratch.makeAuthority("root")
        #expect(message(try scratch.read("root.pem")) == "it holds a certificate, and a private key is wanted")
        let other = #expect(throws: TLSError.self) {
            try ES256PublicKey(pem: String(decoding: self.scratch.read("good.p8"), as: UTF8.self))
        }
        #expect(other?.message == "it holds a private key, and a public key is wanted")
        #expect(
            message(Array("-----BEGIN MIGHAgEAMBMGByqGSM49-----\nAAAA\n".utf8)) == "it holds something else, and a private key is wanted")
    }

    @Test("What is no PEM is named so") func noPEM() throws {
        #expect(message([]) == "it is empty")
        #expect(message(Array("MIGHAgEAMBMGByqGSM49\n".utf8)) == "it has no line -----BEGIN …-----, so it is not PEM")
        // As bytes: a Swift text would replace them.
        try scratch.openssl("pkey -in good.p8 -outform DER -out good.der")
        let binary = #expect(throws: TLSError.self) { try ES256PrivateKey(pemFile: self.scratch.path("good.der")) }
        #expect(binary?.message == "it is binary (DER or PKCS #12), and PEM is wanted")
        try scratch.write("wide.p8", [0xff, 0xfe] + scratch.read("good.p8").flatMap { [$0, 0] })
        let wide = #expect(throws: TLSError.self) { try ES256PrivateKey(pemFile: self.scratch.path("wide.p8")) }
        #expect(wide?.message == "its text is in UTF-16: write it in UTF-8")
    }

    @Test(
        "A key of another kind is named so",
        arguments: [
            ("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out other", "a key of the kind EC on the curve secp384r1"),
            ("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:secp256k1 -out other", "a key of the kind EC on the curve secp256k1"),
            ("genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out other", "a key of the kind RSA"),
            ("genpkey -algorithm ED25519 -out other", "a key of the kind ED25519"),
        ])
    func otherKinds(command: String, kind: String) throws {
        try scratch.openssl(command)
        #expect(message(try scratch.read("other")) == "it is \(kind), and not an EC key on the curve P-256")
    }

    @Test("A file that cannot be read is named with the reason") func files() throws {
        let missing = #expect(throws: TLSError.self) { try ES256PrivateKey(pemFile: "/nowhere/key.p8") }
        #expect(missing?.description == "/nowhere/key.p8: there is no such file")
        let folder = scratch.directory.path
        let error = #expect(throws: TLSError.self) { try ES256PublicKey(pemFile: folder) }
        #expect(error?.description == "\(folder): it is a folder")
    }
}
