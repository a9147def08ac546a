internal import COpenSSL

/// A signing key for ES256 (RFC 7518 section 3.4), as Apple issues it: a `.p8` file, which is PKCS #8 in PEM. Has no description: the key
/// must never reach a log.
package struct ES256PrivateKey: Sendable {
    private let key: ECKey

    package init(pemFile path: String) throws(TLSError) {
        try self.init(pem: keyFileBytes(path))
    }

    package init(pem: String) throws(TLSError) {
        try self.init(pem: Array(pem.utf8))
    }

    package init(pem: [UInt8]) throws(TLSError) {
        key = try ECKey(pem: pem, .privateKey) { bio in PEM_read_bio_PrivateKey(bio, nil, withoutAsking, nil) }
    }

    private init(key: ECKey) {
        self.key = key
    }

    package static func generate() throws(TLSError) -> ES256PrivateKey {
        ERR_clear_error()
        guard let handle = push_EVP_EC_gen("P-256") else { throw .last("EVP_EC_gen", code: .key) }
        return ES256PrivateKey(key: try ECKey(taking: handle))
    }

    /// - Returns: R‖S, 64 bytes.
    package func sign(_ message: [UInt8]) throws(TLSError) -> [UInt8] {
        ERR_clear_error()
        guard let context = EVP_MD_CTX_new() else { throw .last("EVP_MD_CTX_new") }
        defer { EVP_MD_CTX_free(context) }
        var der = [UInt8](repeating: 0, count: 80)
        var count = der.count
        guard EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key.handle) == 1,
            EVP_DigestSign(context, &der, &count, message, message.count) == 1
        else { throw .last("EVP_DigestSign", code: .key) }
        guard let raw = ES256Signature.raw(der: Array(der.prefix(count))) else { throw .last("d2i_ECDSA_SIG", code: .key) }
        return raw
    }

    package var publicKey: ES256PublicKey {
        ES256PublicKey(key: key)
    }

    /// PKCS #8 in PEM, for writing a key file. A secret.
    package func pem() throws(TLSError) -> String {
        try key.text("PEM_write_bio_PKCS8PrivateKey") { bio in
            PEM_write_bio_PKCS8PrivateKey(bio, key.handle, nil, nil, 0, nil, nil)
        }
    }
}
