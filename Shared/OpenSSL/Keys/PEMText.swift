/// Says why a text holds no key or certificate in PEM (RFC 7468), for the person who made the file. Shows nothing of its content.
enum PEMText {
    /// What a file should hold. Its name is the operation of an error.
    enum Block: String {
        case privateKey = "private key"
        case publicKey = "public key"
        case certificate
    }

    static func isEncrypted(_ bytes: [UInt8]) -> Bool {
        let text = String(decoding: bytes, as: UTF8.self)
        // PKCS #8 (RFC 7468 section 11), and OpenSSL's older form (RFC 1421 section 4.6.1.1).
        return text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----") || text.contains("Proc-Type: 4,ENCRYPTED")
    }

    /// - Returns: nil if the text looks as it should, so that OpenSSL's own reason says more.
    static func fault(of bytes: [UInt8], wanted: Block) -> String? {
        guard !bytes.isEmpty else { return "it is empty" }
        if bytes.starts(with: [0xff, 0xfe]) || bytes.starts(with: [0xfe, 0xff]) { return "its text is in UTF-16: write it in UTF-8" }
        // DER begins with a SEQUENCE (the digit 0 as text), and has bytes that no text has.
        if bytes[0] == 0x30, bytes.contains(where: { $0 < 0x09 }) { return "it is binary (DER or PKCS #12), and PEM is wanted" }
        let text = String(decoding: bytes, as: UTF8.self)
        let blocks = text.split(separator: "-----BEGIN ", omittingEmptySubsequences: false).dropFirst()
        guard !blocks.isEmpty else { return "it has no line -----BEGIN …-----, so it is not PEM" }
        if text.contains("\\n") { return #"its line breaks are written as \n, two characters: write real ones"# }
        guard bytes.contains(UInt8(ascii: "\n")), blocks.allSatisfy(hasOwnLine) else {
            return "its line breaks are missing: -----BEGIN …----- and -----END …----- are lines of their own"
        }
        let kinds = blocks.map(kind)
        return kinds.contains(wanted) ? nil : "it holds \(name(kinds.first ?? nil)), and a \(wanted.rawValue) is wanted"
    }

    /// The line of the label ends after its hyphens, or blanks that follow them.
    private static func hasOwnLine(_ block: Substring) -> Bool {
        guard let end = block.firstRange(of: "-----") else { return false }
        return block[end.upperBound...].first { $0 != " " && $0 != "\t" }?.isNewline == true
    }

    private static func kind(_ block: Substring) -> Block? {
        let label = block.prefix { $0 != "-" }
        if label.hasSuffix("PRIVATE KEY") { return .privateKey }
        if label.hasSuffix("PUBLIC KEY") { return .publicKey }
        return label.hasSuffix("CERTIFICATE") ? .certificate : nil
    }

    /// The label itself may be a part of a key whose hyphens were lost.
    private static func name(_ kind: Block?) -> String { kind.map { "a \($0.rawValue)" } ?? "something else" }
}
