internal import COpenSSL

/// A certificate that a client shows, its chain and its key, read once: later changes of the files have no effect. Has no description: the
/// key must never reach a log.
///
/// Sendable: never changed after `init`, and OpenSSL counts references of certificates and keys atomically (openssl-threads(7)).
package final class ClientCertificate: Sendable {
    private struct Parts {
        var certificate: OpaquePointer?
        var key: OpaquePointer?
        /// The certificates between this one and its authority; nil if there are none.
        var chain: OpaquePointer?

        func free() {
            X509_free(certificate)
            EVP_PKEY_free(key)
            if let chain { push_X509_list_free(chain) }
        }
    }

    private nonisolated(unsafe) let parts: Parts

    /// UNIX seconds: valid from, and to.
    package let notBefore: Int64
    package let notAfter: Int64

    /// - Parameters:
    ///   - pem: the certificate first, its chain after it.
    ///   - key: PEM; may be in the same file.
    ///   - passphrase: of the key; needed when it is encrypted.
    package convenience init(pem: [UInt8], key: [UInt8], passphrase: String? = nil) throws(TLSError) {
        ERR_clear_error()
        var parts = Parts()
        do throws(TLSError) {
            try Self.readCertificates(pem, into: &parts)
            parts.key = withBIO(key) { bio in
                guard let passphrase else { return PEM_read_bio_PrivateKey(bio, nil, withoutAsking, nil) }
                var secret = passphrase.utf8CString
                return secret.withUnsafeMutableBufferPointer { PEM_read_bio_PrivateKey(bio, nil, nil, $0.baseAddress) }
            }
            guard parts.key != nil else { throw .last("private key", code: .file) }
            try self.init(checking: parts)
        } catch {
            parts.free()
            throw error
        }
    }

    /// - Parameters:
    ///   - pkcs12: a `.p12` file. Those that Keychain Access writes use ciphers that OpenSSL 3 no longer reads; convert them to PEM with
    ///     `openssl pkcs12 -legacy`.
    package convenience init(pkcs12 bytes: [UInt8], passphrase: String? = nil) throws(TLSError) {
        ERR_clear_error()
        var parts = Parts()
        do throws(TLSError) {
            guard let container = withBIO(bytes, { d2i_PKCS12_bio($0, nil) }) else { throw .last("d2i_PKCS12", code: .file) }
            defer { PKCS12_free(container) }
            guard PKCS12_parse(container, passphrase ?? "", &parts.key, &parts.certificate, &parts.chain) == 1 else {
                throw .last("PKCS12_parse", code: .file)
            }
            guard parts.certificate != nil, parts.key != nil else {
                throw TLSError(code: .file, operation: "PKCS12_parse", message: "no certificate with its key")
            }
            try self.init(checking: parts)
        } catch {
            parts.free()
            throw error
        }
    }

    /// Takes `parts` over only when it does not throw.
    private init(checking parts: Parts) throws(TLSError) {
        guard X509_check_private_key(parts.certificate, parts.key) == 1 else { throw .last("X509_check_private_key", code: .file) }
        guard let from = Self.seconds(X509_get0_notBefore(parts.certificate)), let to = Self.seconds(X509_get0_notAfter(parts.certificate))
        else { throw .last("validity of a certificate", code: .file) }
        (notBefore, notAfter) = (from, to)
        self.parts = parts
    }

    deinit { parts.free() }

    func use(in context: OpaquePointer) throws(TLSError) {
        ERR_clear_error()
        guard SSL_CTX_use_cert_and_key(context, parts.certificate, parts.key, parts.chain, 1) == 1 else {
            throw .last("SSL_CTX_use_cert_and_key", code: .file)
        }
    }

    private static func readCertificates(_ pem: [UInt8], into parts: inout Parts) throws(TLSError) {
        var (certificate, chain) = (OpaquePointer?.none, OpaquePointer?.none)
        withBIO(pem) { bio in
            certificate = PEM_read_bio_X509_AUX(bio, nil, withoutAsking, nil)
            while certificate != nil, let next = PEM_read_bio_X509(bio, nil, withoutAsking, nil) {
                chain = chain ?? push_X509_list_new()
                guard chain != nil, push_X509_list_append(chain, next) > 0 else { return X509_free(next) }
            }
        }
        (parts.certificate, parts.chain) = (certificate, chain)
        guard certificate != nil else { throw .last("certificate", code: .file) }
        // Reading ends with "no start line", which is no error here.
        ERR_clear_error()
    }

    private static func seconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int64? {
        let epoch = ASN1_TIME_set(nil, 0)
        defer { ASN1_STRING_free(epoch) }
        var (days, seconds): (Int32, Int32) = (0, 0)
        guard let time, ASN1_TIME_diff(&days, &seconds, epoch, time) == 1 else { return nil }
        return Int64(days) * 86_400 + Int64(seconds)
    }
}

/// A BIO that reads `bytes`, which it does not copy.
private func withBIO<Result>(_ bytes: [UInt8], _ body: (OpaquePointer) -> Result?) -> Result? {
    bytes.withUnsafeBytes { buffer in
        guard let bio = BIO_new_mem_buf(buffer.baseAddress, Int32(clamping: buffer.count)) else { return nil }
        defer { BIO_free(bio) }
        return body(bio)
    }
}
