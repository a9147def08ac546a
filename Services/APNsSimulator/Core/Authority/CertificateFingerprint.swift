/// SHA-256 of a client's certificate, by which the control API names it.
struct CertificateFingerprint: Hashable, Sendable {
    let bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// - Returns: nil unless the text is 64 hex digits, in either case, with or without colons between bytes as OpenSSL prints them.
    init?(_ text: String) {
        var nibbles: [UInt8] = []
        for byte in text.utf8 where byte != UInt8(ascii: ":") {
            let nibble = hexNibble(byte)
            guard nibble < 16, nibbles.count < 64 else { return nil }
            nibbles.append(nibble)
        }
        guard nibbles.count == 64 else { return nil }
        bytes = stride(from: 0, to: 64, by: 2).map { nibbles[$0] << 4 | nibbles[$0 + 1] }
    }

    /// Lower case, without colons.
    var hex: String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }
}

/// The control API's state of a certificate; it overrules the certificate's authority.
package enum CertificateState: String, Sendable, CaseIterable {
    /// Good, in its time.
    case active
    /// `BadCertificate`
    case revoked
}
