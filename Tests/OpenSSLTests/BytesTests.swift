import OpenSSL
import Testing

@Suite("Digests, random bytes, base 64")
struct BytesTests {
    private func hex(_ bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    /// FIPS 180-4's examples, and RFC 4231's test case 2.
    @Test("Digests match their standards") func standards() {
        #expect(hex(Digest.sha256([])) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")
        #expect(hex(Digest.sha256(Array("abc".utf8))) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        #expect(
            hex(Digest.hmacSHA256(key: Array("Jefe".utf8), Array("what do ya want for nothing?".utf8)))
                == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
        // An empty key is legal (RFC 2104 section 2).
        #expect(hex(Digest.hmacSHA256(key: [], [])) == "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad")
    }

    @Test("Random bytes have the wanted count and are never the same") func randomBytes() {
        #expect(SecureRandom.bytes(0).isEmpty)
        #expect(SecureRandom.bytes(32).count == 32)
        #expect(SecureRandom.bytes(32) != SecureRandom.bytes(32))
    }

    @Test("A constant-time comparison distinguishes equal from different bytes") func comparison() {
        #expect(constantTimeEquals([], []))
        #expect(constantTimeEquals([1, 2, 3], [1, 2, 3]))
        #expect(!constantTimeEquals([1, 2, 3], [1, 2, 4]))
        #expect(!constantTimeEquals([1, 2, 3], [1, 2]))
    }

    /// RFC 4648 section 10, without padding.
    @Test(
        "Base 64 matches the examples of its standard",
        arguments: [
            ("", ""), ("f", "Zg"), ("fo", "Zm8"), ("foo", "Zm9v"), ("foob", "Zm9vYg"), ("fooba", "Zm9vYmE"), ("foobar", "Zm9vYmFy"),
        ])
    func examples(plain: String, encoded: String) {
        #expect(Base64URL.encode(plain.utf8) == encoded)
        #expect(Base64URL.decode(encoded) == Array(plain.utf8))
    }

    @Test("Base 64 uses the URL-safe alphabet for every byte") func safeAlphabet() {
        #expect(Base64URL.encode([0xfb, 0xff, 0xfe]) == "-__-")
        let all = (0...255).map { UInt8($0) }
        #expect(Base64URL.decode(Base64URL.encode(all)) == all)
    }

    @Test(
        "The decoder refuses every text that the encoder would not write",
        arguments: ["Zg==", "Z", "Zm9vY", "Zh", "Zm9", "+/+/", "Zg\n", "Zg ", "Zé", "-__!"])
    func strictDecoder(text: String) {
        #expect(Base64URL.decode(text) == nil)
    }
}
