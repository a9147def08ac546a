import OpenSSL
package import PushModel

extension PushID {
    /// Version 8 (RFC 9562 section 5.8): the first half of the bytes' SHA-256.
    package init(digestOf bytes: [UInt8]) {
        let digest = Digest.sha256(bytes)
        let (high, low) = (Self.word(digest[..<8]), Self.word(digest[8..<16]))
        self.init(high: high & ~0xf000 | 0x8000, low: low & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000)
    }

    private static func word(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) } }
}
