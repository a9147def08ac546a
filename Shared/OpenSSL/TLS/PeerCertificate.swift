internal import COpenSSL

/// The certificate that a peer has shown: copied, so that it outlives the session.
package struct PeerCertificate: Sendable, Equatable {
    package struct Extension: Sendable, Equatable {
        /// The identifier in dotted form, `1.2.840.113635.100.6.3.6`.
        package let identifier: String
        /// DER, without the OCTET STRING around it.
        package let value: [UInt8]
    }

    /// An authority that we trust issued it, and now lies between its two dates.
    package let isTrusted: Bool
    /// Now lies between its two dates, for any authority.
    package let isInTime: Bool
    /// SHA-256 of the whole certificate, which `openssl x509 -fingerprint -sha256` prints; 32 bytes.
    package let fingerprint: [UInt8]
    /// Why it is not trusted, in OpenSSL's words.
    package let problem: String?
    package let commonName: String?
    /// The subject's `UID` (0.9.2342.19200300.100.1.1).
    package let userID: String?
    package let extensions: [Extension]
}

extension TLSSession {
    /// The peer's certificate after the handshake; nil if it showed none.
    package var peerCertificate: PeerCertificate? {
        guard let certificate = SSL_get1_peer_certificate(session) else { return nil }
        defer { X509_free(certificate) }
        let result = SSL_get_verify_result(session)
        let subject = X509_get_subject_name(certificate)
        return PeerCertificate(
            isTrusted: result == X509_V_OK,
            isInTime: X509_cmp_current_time(X509_get0_notBefore(certificate)) < 0
                && X509_cmp_current_time(X509_get0_notAfter(certificate)) > 0,
            fingerprint: fingerprint(of: certificate),
            problem: result == X509_V_OK ? nil : X509_verify_cert_error_string(result).map { String(cString: $0) },
            commonName: nameEntry(subject, NID_commonName), userID: nameEntry(subject, NID_userId), extensions: extensions(of: certificate))
    }
}

private func fingerprint(of certificate: OpaquePointer) -> [UInt8] {
    var digest = [UInt8](repeating: 0, count: 32)
    // Fails only for want of memory, and then no certificate has this fingerprint.
    _ = X509_digest(certificate, EVP_sha256(), &digest, nil)
    return digest
}

/// The first entry of that kind.
private func nameEntry(_ name: OpaquePointer?, _ kind: Int32) -> String? {
    let index = X509_NAME_get_index_by_NID(name, kind, -1)
    guard index >= 0, let value = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, index)) else { return nil }
    return String(decoding: bytes(of: value), as: UTF8.self)
}

private func extensions(of certificate: OpaquePointer) -> [PeerCertificate.Extension] {
    (0..<X509_get_ext_count(certificate)).compactMap { index in
        guard let entry = X509_get_ext(certificate, index), let value = X509_EXTENSION_get_data(entry) else { return nil }
        var text = [UInt8](repeating: 0, count: 128)
        let length = text.withUnsafeMutableBytes { buffer in
            OBJ_obj2txt(buffer.bindMemory(to: CChar.self).baseAddress, Int32(buffer.count), X509_EXTENSION_get_object(entry), 1)
        }
        guard length > 0, length < 128 else { return nil }
        return PeerCertificate.Extension(identifier: String(decoding: text.prefix(Int(length)), as: UTF8.self), value: bytes(of: value))
    }
}

private func bytes(of text: UnsafePointer<ASN1_STRING>) -> [UInt8] {
    Array(UnsafeBufferPointer(start: ASN1_STRING_get0_data(text), count: Int(ASN1_STRING_length(text))))
}
