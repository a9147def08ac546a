internal import COpenSSL
internal import SystemIO

/// Owns one `EVP_PKEY` on the curve P-256.
///
/// Sendable: never changed after `init`, and OpenSSL allows that several threads use one key, each with its own context
/// (openssl-threads(7)).
final class ECKey: Sendable {
    nonisolated(unsafe) let handle: OpaquePointer

    /// Refuses keys of other kinds and curves.
    init(taking handle: OpaquePointer) throws(TLSError) {
        self.handle = handle
        var name = [CChar](repeating: 0, count: 32)
        var length = 0
        guard EVP_PKEY_get_group_name(handle, &name, name.count, &length) == 1,
            name.prefix(length).elementsEqual("prime256v1".utf8.map { CChar(bitPattern: $0) })
        else {
            ERR_clear_error()
            throw TLSError(
                code: .key, operation: "ES256 key", message: "it is \(Self.kind(of: handle)), and not an EC key on the curve P-256")
        }
    }

    deinit { EVP_PKEY_free(handle) }

    private static func kind(of handle: OpaquePointer) -> String {
        guard let type = EVP_PKEY_get0_type_name(handle).map({ String(cString: $0) }) else { return "a key of another kind" }
        var name = [CChar](repeating: 0, count: 32)
        var length = 0
        guard EVP_PKEY_get_group_name(handle, &name, name.count, &length) == 1 else { return "a key of the kind \(type)" }
        return "a key of the kind \(type) on the curve "
            + String(decoding: name.prefix(length).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Reads one key from PEM text with `parse`, which gets a BIO over the text.
    /// - Parameter block: what the text should hold, if `parse` finds nothing.
    convenience init(pem: [UInt8], _ block: PEMText.Block, _ parse: (OpaquePointer) -> OpaquePointer?) throws(TLSError) {
        ERR_clear_error()
        let key = pem.withUnsafeBytes { bytes -> OpaquePointer? in
            guard let bio = BIO_new_mem_buf(bytes.baseAddress, Int32(clamping: bytes.count)) else { return nil }
            defer { BIO_free(bio) }
            return parse(bio)
        }
        guard let key else {
            let reason = TLSError.last(block.rawValue, code: .key)
            let advice = "it is encrypted, and a signing key must not be (openssl pkey -in FILE -out NEW writes it without its passphrase)"
            throw reason.saying(PEMText.isEncrypted(pem) ? advice : PEMText.fault(of: pem, wanted: block))
        }
        try self.init(taking: key)
    }

    /// The text that `print` writes into a BIO.
    func text(_ operation: String, _ print: (OpaquePointer) -> Int32) throws(TLSError) -> String {
        ERR_clear_error()
        guard let bio = BIO_new(BIO_s_mem()) else { throw .last("BIO_new") }
        defer { BIO_free(bio) }
        guard print(bio) == 1 else { throw .last(operation, code: .key) }
        var start: UnsafeMutablePointer<CChar>?
        let count = push_BIO_get_mem_data(bio, &start)
        return String(decoding: UnsafeRawBufferPointer(start: start, count: count), as: UTF8.self)
    }
}

/// Answers every function that reads PEM: an encrypted block (and any block may claim to be one) must be an error, not a question on the
/// terminal.
func withoutAsking(_: UnsafeMutablePointer<CChar>?, _: Int32, _: Int32, _: UnsafeMutableRawPointer?) -> Int32 { -1 }

/// Reads a whole file, at most 64 KiB: no key is larger.
func keyFileBytes(_ path: String) throws(TLSError) -> [UInt8] {
    do throws(WholeFile.Fault) {
        return try WholeFile(path: path, maximumBytes: 65_536).bytes
    } catch {
        throw TLSError(code: .file, operation: path, message: error.description)
    }
}

/// Checks ES256 signatures. PEM: `BEGIN PUBLIC KEY` (SubjectPublicKeyInfo, RFC 7468 section 13).
package struct ES256PublicKey: Sendable {
    private let key: ECKey

    init(key: ECKey) {
        self.key = key
    }

    package init(pemFile path: String) throws(TLSError) {
        try self.init(pem: keyFileBytes(path))
    }

    package init(pem: String) throws(TLSError) {
        try self.init(pem: Array(pem.utf8))
    }

    private init(pem: [UInt8]) throws(TLSError) {
        key = try ECKey(pem: pem, .publicKey) { bio in PEM_read_bio_PUBKEY(bio, nil, withoutAsking, nil) }
    }

    /// - Parameter signature: R‖S or, as Apple's own shell sample sends it, DER (docs/apns.md, Provider tokens).
    package func isValid(signature: [UInt8], for message: [UInt8]) -> Bool {
        let der = signature.count == ES256Signature.rawBytes ? ES256Signature.der(raw: signature) : signature
        guard let der, let context = EVP_MD_CTX_new() else { return false }
        defer {
            EVP_MD_CTX_free(context)
            ERR_clear_error()
        }
        return EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key.handle) == 1
            && EVP_DigestVerify(context, der, der.count, message, message.count) == 1
    }

    package func pem() throws(TLSError) -> String {
        try key.text("PEM_write_bio_PUBKEY") { bio in PEM_write_bio_PUBKEY(bio, key.handle) }
    }
}

/// The two spellings of an ECDSA signature over P-256: JOSE's 64 bytes R‖S (RFC 7518 section 3.4) and OpenSSL's DER (RFC 3279 section
/// 2.2.3).
enum ES256Signature {
    static let rawBytes = 64

    /// Both integers left-padded to 32 bytes; nil when this is not a DER signature of that size.
    static func raw(der: [UInt8]) -> [UInt8]? {
        let signature = der.withUnsafeBufferPointer { buffer -> OpaquePointer? in
            var position = buffer.baseAddress
            return d2i_ECDSA_SIG(nil, &position, buffer.count)
        }
        guard let signature else { return nil }
        defer { ECDSA_SIG_free(signature) }
        var raw = [UInt8](repeating: 0, count: rawBytes)
        let fits = raw.withUnsafeMutableBufferPointer { buffer -> Bool in
            guard let base = buffer.baseAddress else { return false }
            return BN_bn2binpad(ECDSA_SIG_get0_r(signature), base, 32) == 32
                && BN_bn2binpad(ECDSA_SIG_get0_s(signature), base + 32, 32) == 32
        }
        return fits ? raw : nil
    }

    static func der(raw: [UInt8]) -> [UInt8]? {
        guard raw.count == rawBytes, let signature = ECDSA_SIG_new() else { return nil }
        defer { ECDSA_SIG_free(signature) }
        let parts = raw.withUnsafeBufferPointer { buffer -> (OpaquePointer?, OpaquePointer?) in
            (BN_bin2bn(buffer.baseAddress, 32, nil), BN_bin2bn(buffer.baseAddress.map { $0 + 32 }, 32, nil))
        }
        // From here on the signature owns both numbers.
        guard ECDSA_SIG_set0(signature, parts.0, parts.1) == 1 else {
            BN_free(parts.0)
            BN_free(parts.1)
            return nil
        }
        var der = [UInt8](repeating: 0, count: 80)
        let count = der.withUnsafeMutableBufferPointer { buffer -> Int32 in
            var position = buffer.baseAddress
            return i2d_ECDSA_SIG(signature, &position)
        }
        return count > 0 ? Array(der.prefix(Int(count))) : nil
    }
}

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
