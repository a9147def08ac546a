internal import COpenSSL

extension TLSContext {
    /// For accepting with an untrusted certificate made here and now: how a client sees a server with a false name.
    /// - Parameter name: Its common name; there are no other names in it.
    package static func server(selfSignedFor name: String, alpn: [String]) throws(TLSError) -> TLSContext {
        let context = try TLSContext(isServer: true, alpn: alpn)
        ERR_clear_error()
        guard let key = push_EVP_EC_gen("P-256") else { throw .last("EVP_EC_gen") }
        defer { EVP_PKEY_free(key) }
        guard let certificate = X509_new() else { throw .last("X509_new") }
        defer { X509_free(certificate) }
        let day = 86_400
        guard X509_set_version(certificate, 2) == 1, ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1) == 1,
            X509_gmtime_adj(X509_getm_notBefore(certificate), -day) != nil,
            X509_gmtime_adj(X509_getm_notAfter(certificate), 30 * day) != nil,
            X509_set_pubkey(certificate, key) == 1, let subject = X509_get_subject_name(certificate),
            X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, name, -1, -1, 0) == 1,
            X509_set_issuer_name(certificate, subject) == 1, X509_sign(certificate, key, EVP_sha256()) > 0
        else { throw .last("self-signed certificate") }
        guard SSL_CTX_use_certificate(context.handle, certificate) == 1, SSL_CTX_use_PrivateKey(context.handle, key) == 1 else {
            throw .last("SSL_CTX_use_certificate")
        }
        context.answerALPN()
        return context
    }
}
