internal import COpenSSL

/// A certificate that an end of a connection shows, its chain and its key, read once: later changes of the files have no effect. Has no
/// description: the key must never reach a log.
///
/// Sendable: never changed after `init`, and OpenSSL counts references of certificates and keys atomically (openssl-threads(7)).
package final class ClientCertificate: Sendable {
    private nonisolated(unsafe) let certificate: OpaquePointer
    private nonisolated(unsafe) let key: OpaquePointer
    /// The certificates between this one and its authority, in their order; nil if there are none.
    private nonisolated(unsafe) let chain: OpaquePointer?

    /// UNIX seconds: valid from, and to.
    package let notBefore: Int64
    package let notAfter: Int64

    /// - Parameters:
    ///   - pem: the certificate and its chain, in any order.
    ///   - key: PEM; may be in the same file.
    ///   - passphrase: the key's passphrase; needed when it is encrypted.
    package convenience init(pem: [UInt8], key: [UInt8], passphrase: String? = nil) throws(TLSError) {
        let privateKey = try Self.readKey(key, passphrase: passphrase)
        let certificates: [OpaquePointer]
        do throws(TLSError) {
            certificates = try Self.readCertificates(pem)
        } catch {
            EVP_PKEY_free(privateKey)
            throw error
        }
        try self.init(taking: certificates, key: privateKey)
    }

    /// - Parameter bytes: a `.p12` file. OpenSSL 3 does not read the ciphers of those that Keychain Access writes; the error says how to
    ///   convert them.
    package convenience init(pkcs12 bytes: [UInt8], passphrase: String? = nil) throws(TLSError) {
        ERR_clear_error()
        guard let container = withBIO(bytes, { d2i_PKCS12_bio($0, nil) }) else {
            let reason = TLSError.last("PKCS #12", code: .file)
            throw reason.saying(bytes.isEmpty ? "it is empty" : "it is no PKCS #12 file (\(reason.message))")
        }
        defer { PKCS12_free(container) }
        var (key, certificate, rest) = (OpaquePointer?.none, OpaquePointer?.none, OpaquePointer?.none)
        guard PKCS12_parse(container, passphrase ?? "", &key, &certificate, &rest) == 1 else {
            let reason = TLSError.last("PKCS #12", code: .file)
            // OpenSSL's word for an algorithm that none of its providers has.
            guard reason.message != "unsupported" else { throw reason.saying(Self.conversion) }
            throw Self.unopened(reason, passphrase)
        }
        var certificates: [OpaquePointer] = certificate.map { [$0] } ?? []
        while let rest, let next = push_X509_list_take_first(rest) { certificates.append(next) }
        if let rest { push_X509_list_free(rest) }
        guard let key, !certificates.isEmpty else {
            EVP_PKEY_free(key)
            certificates.forEach { X509_free($0) }
            throw TLSError(code: .file, operation: "PKCS #12", message: "it holds no certificate with its private key")
        }
        try self.init(taking: certificates, key: key)
    }

    /// Owns what it gets, also when it throws.
    private init(taking certificates: [OpaquePointer], key: OpaquePointer) throws(TLSError) {
        var rest = certificates
        do throws(TLSError) {
            rest = try Self.inOrder(rest, of: key)
            guard let first = rest.first, let from = Self.seconds(X509_get0_notBefore(first)),
                let to = Self.seconds(X509_get0_notAfter(first))
            else { throw .last("validity of a certificate", code: .file) }
            var list: OpaquePointer?
            if rest.count > 1 {
                list = push_X509_list_new()
                guard list != nil else { throw .last("sk_X509_new_null") }
            }
            rest.removeFirst()
            while let next = rest.first {
                guard push_X509_list_append(list, next) > 0 else {
                    push_X509_list_free(list)
                    X509_free(first)
                    throw .last("sk_X509_push")
                }
                rest.removeFirst()
            }
            (certificate, self.key, chain) = (first, key, list)
            (notBefore, notAfter) = (from, to)
        } catch {
            rest.forEach { X509_free($0) }
            EVP_PKEY_free(key)
            throw error
        }
    }

    deinit {
        X509_free(certificate)
        EVP_PKEY_free(key)
        if let chain { push_X509_list_free(chain) }
    }

    func use(in context: OpaquePointer) throws(TLSError) {
        ERR_clear_error()
        guard SSL_CTX_use_cert_and_key(context, certificate, key, chain, 1) == 1 else {
            throw .last("SSL_CTX_use_cert_and_key", code: .file)
        }
    }

    // MARK: Reading

    private static let conversion =
        "it has a cipher that OpenSSL 3 does not read, as Keychain Access writes it: "
        + "openssl pkcs12 -legacy -nodes -in FILE -out FILE.pem converts it to PEM"

    private static func readKey(_ pem: [UInt8], passphrase: String?) throws(TLSError) -> OpaquePointer {
        ERR_clear_error()
        let key = withBIO(pem) { bio -> OpaquePointer? in
            guard let passphrase else { return PEM_read_bio_PrivateKey(bio, nil, withoutAsking, nil) }
            var secret = passphrase.utf8CString
            return secret.withUnsafeMutableBufferPointer { PEM_read_bio_PrivateKey(bio, nil, nil, $0.baseAddress) }
        }
        if let key { return key }
        let reason = TLSError.last(PEMText.Block.privateKey.rawValue, code: .file)
        throw PEMText.isEncrypted(pem) ? unopened(reason, passphrase) : reason.saying(PEMText.fault(of: pem, wanted: .privateKey))
    }

    private static func readCertificates(_ pem: [UInt8]) throws(TLSError) -> [OpaquePointer] {
        ERR_clear_error()
        let read = withBIO(pem) { bio -> [OpaquePointer]? in
            var certificates: [OpaquePointer] = []
            // The first may be a "trusted certificate", with words of OpenSSL's own after it.
            var next = PEM_read_bio_X509_AUX(bio, nil, withoutAsking, nil)
            while let certificate = next {
                certificates.append(certificate)
                next = PEM_read_bio_X509(bio, nil, withoutAsking, nil)
            }
            return certificates
        }
        let certificates = read ?? []
        let isAtEnd = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE
        let reason = TLSError.last(PEMText.Block.certificate.rawValue, code: .file)
        if isAtEnd, !certificates.isEmpty { return certificates }
        certificates.forEach { X509_free($0) }
        throw reason.saying(PEMText.fault(of: pem, wanted: .certificate))
    }

    /// Why a file that a passphrase protects was not read.
    private static func unopened(_ reason: TLSError, _ passphrase: String?) -> TLSError {
        guard let passphrase, !passphrase.isEmpty else {
            return reason.saying("it is encrypted, and there is no passphrase for it (\(reason.message))")
        }
        return reason.saying("the passphrase does not open it (\(reason.message))")
    }

    /// The key's own certificate first, and after each certificate the one that issued it: TLS sends them so (RFC 8446 section 4.4.2).
    /// Certificates without a place in the chain come last.
    private static func inOrder(_ certificates: [OpaquePointer], of key: OpaquePointer) throws(TLSError) -> [OpaquePointer] {
        defer { ERR_clear_error() }
        var rest = certificates
        guard let own = rest.firstIndex(where: { X509_check_private_key($0, key) == 1 }) else {
            let subject = rest.count == 1 ? "the certificate does not belong" : "none of the \(rest.count) certificates belongs"
            throw TLSError(code: .file, operation: "certificate", message: "\(subject) to the private key")
        }
        var chain = [rest.remove(at: own)]
        while let last = chain.last, let issuer = rest.firstIndex(where: { X509_check_issued($0, last) == X509_V_OK }) {
            chain.append(rest.remove(at: issuer))
        }
        return chain + rest
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
