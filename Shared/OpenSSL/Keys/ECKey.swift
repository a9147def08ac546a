internal import COpenSSL
internal import SystemIO

/// Owns one `EVP_PKEY` on the curve P-256.
///
/// Sendable: never changed after `init`, and OpenSSL allows that several threads use one key, each with its own context (openssl-threads(7)).
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

/// For every function that reads PEM: an encrypted block (and any block may claim to be one) must be an error, not a question on the
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
