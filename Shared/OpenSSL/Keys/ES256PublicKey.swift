internal import COpenSSL

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
