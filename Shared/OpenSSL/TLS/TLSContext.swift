internal import COpenSSL

/// The shared part of many sessions: trust, identity, protocols. Wraps `SSL_CTX`; TLS 1.2 or later; no session resumption.
///
/// Sendable: it is set up in `init` and only read after, which OpenSSL allows from any thread (openssl-threads(7)).
package final class TLSContext: Sendable {
    nonisolated(unsafe) let handle: OpaquePointer
    /// The server's protocols in ALPN wire form (RFC 7301 section 3.1), most wanted first. Lives here because the selection callback points
    /// to it.
    fileprivate let protocols: [UInt8]

    init(isServer: Bool, alpn: [String]) throws(TLSError) {
        ERR_clear_error()
        guard let handle = SSL_CTX_new(isServer ? TLS_server_method() : TLS_client_method()) else { throw .last("SSL_CTX_new") }
        self.handle = handle
        protocols = try Self.wireForm(alpn)
        guard push_SSL_CTX_set_min_proto_version(handle, TLS1_2_VERSION) == 1 else { throw .last("SSL_CTX_set_min_proto_version") }
        // RELEASE_BUFFERS: an idle connection keeps no 34 KiB of buffers.
        let modes = SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER
        _ = push_SSL_CTX_set_mode(handle, Int(modes))
        _ = push_SSL_CTX_set_session_cache_mode(handle, Int(SSL_SESS_CACHE_OFF))
        _ = SSL_CTX_set_num_tickets(handle, 0)
        // Bits 14 and 30 (ssl.h spells them with a macro Swift does not import): no TLS 1.2 tickets, no renegotiation.
        _ = SSL_CTX_set_options(handle, 1 << 14 | 1 << 30)
    }

    deinit { SSL_CTX_free(handle) }

    /// Makes a context for connecting. The peer's chain and name are checked inside the handshake, always.
    /// - Parameters:
    ///   - certificate: shown when the peer asks for one; read from its files now.
    ///   - clientCertificate: the certificate as it was read before. At most one of the two.
    ///   - alpn: the protocols to offer, most wanted first. Check the chosen one: a peer without ALPN chooses none, and that is no error
    ///     here.
    package static func client(
        trust: TLSTrust = .system, certificate: TLSIdentity? = nil, clientCertificate: ClientCertificate? = nil, alpn: [String]
    ) throws(TLSError) -> TLSContext {
        let context = try TLSContext(isServer: false, alpn: alpn)
        try context.trust(trust)
        if let certificate { try context.use(certificate) }
        try clientCertificate?.use(in: context.handle)
        SSL_CTX_set_verify(context.handle, SSL_VERIFY_PEER, nil)
        // The one call of OpenSSL that answers 0 for success.
        if !context.protocols.isEmpty, SSL_CTX_set_alpn_protos(context.handle, context.protocols, UInt32(context.protocols.count)) != 0 {
            throw .last("SSL_CTX_set_alpn_protos")
        }
        return context
    }

    /// Makes a context for accepting.
    /// - Parameters:
    ///   - alpn: the server's protocols, most wanted first. A client that offers only others is refused with `no_application_protocol`; one
    ///     that offers none is accepted with none chosen.
    ///   - clientTrust: when given, clients must show a certificate by one of the authorities in this PEM file.
    ///   - admitsAnyClient: clients are only asked for one, also without authorities; every client is accepted, and
    ///     `TLSSession.peerCertificate` says whether its certificate is trusted.
    package static func server(
        certificateFile: String, keyFile: String, alpn: [String], clientTrust: String? = nil, admitsAnyClient: Bool = false
    ) throws(TLSError) -> TLSContext {
        let context = try TLSContext(isServer: true, alpn: alpn)
        try context.use(TLSIdentity(certificateFile: certificateFile, keyFile: keyFile))
        if let clientTrust {
            try context.trust(.file(clientTrust))
            SSL_CTX_set_client_CA_list(context.handle, SSL_load_client_CA_file(clientTrust))
        }
        if admitsAnyClient {
            // The callback accepts any certificate; SSL_get_verify_result still has the result.
            SSL_CTX_set_verify(context.handle, SSL_VERIFY_PEER) { _, _ in 1 }
        } else if clientTrust != nil {
            SSL_CTX_set_verify(context.handle, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nil)
        }
        context.answerALPN()
        return context
    }

    func answerALPN() {
        guard !protocols.isEmpty else { return }
        // Unretained: OpenSSL calls back only during a handshake, and every session keeps its context alive.
        SSL_CTX_set_alpn_select_cb(handle, selectProtocol, Unmanaged.passUnretained(self).toOpaque())
    }

    private func trust(_ trust: TLSTrust) throws(TLSError) {
        ERR_clear_error()
        switch trust {
        case .system:
            guard SSL_CTX_set_default_verify_paths(handle) == 1 else { throw .last("SSL_CTX_set_default_verify_paths") }
        case .file(let path):
            guard SSL_CTX_load_verify_file(handle, path) == 1 else { throw .last("trusted authorities in \(path)", code: .file) }
        }
    }

    private func use(_ identity: TLSIdentity) throws(TLSError) {
        let (pem, key) = (try keyFileBytes(identity.certificateFile), try keyFileBytes(identity.keyFile))
        do throws(TLSError) {
            try ClientCertificate(pem: pem, key: key).use(in: handle)
        } catch {
            let files = "\(identity.certificateFile) with its key in \(identity.keyFile)"
            throw TLSError(code: error.code, operation: files, message: error.description)
        }
    }

    private static func wireForm(_ names: [String]) throws(TLSError) -> [UInt8] {
        var bytes: [UInt8] = []
        for name in names {
            guard let length = UInt8(exactly: name.utf8.count), length > 0 else {
                throw TLSError(code: .library, operation: "ALPN", message: "a protocol name has 1 to 255 bytes")
            }
            bytes.append(length)
            bytes.append(contentsOf: name.utf8)
        }
        return bytes
    }
}

/// Picks the first of our protocols that the client offers (RFC 7301 section 3.2).
private func selectProtocol(
    _ session: OpaquePointer?, _ chosen: UnsafeMutablePointer<UnsafePointer<UInt8>?>?, _ chosenLength: UnsafeMutablePointer<UInt8>?,
    _ offered: UnsafePointer<UInt8>?, _ offeredLength: UInt32, _ owner: UnsafeMutableRawPointer?
) -> Int32 {
    guard let chosen, let chosenLength, let offered, let owner else { return SSL_TLSEXT_ERR_ALERT_FATAL }
    let context = Unmanaged<TLSContext>.fromOpaque(owner).takeUnretainedValue()
    return context.protocols.withUnsafeBufferPointer { ours in
        var match: UnsafeMutablePointer<UInt8>?
        let result = SSL_select_next_proto(&match, chosenLength, ours.baseAddress, UInt32(ours.count), offered, offeredLength)
        guard result == OPENSSL_NPN_NEGOTIATED, let match else { return SSL_TLSEXT_ERR_ALERT_FATAL }
        // `match` points into the context's array, whose storage outlives the handshake.
        chosen.pointee = UnsafePointer(match)
        return SSL_TLSEXT_ERR_OK
    }
}

extension TLSContext {
    /// Makes a context for accepting with an untrusted certificate made here and now: how a client sees a server with a false name.
    /// - Parameter name: The certificate's common name; there are no other names in it.
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

/// The trusted authorities.
package enum TLSTrust: Sendable, Hashable {
    /// The system's bundle (`SSL_CERT_FILE` and `SSL_CERT_DIR` override it, as everywhere with OpenSSL).
    case system
    /// Trusts only the authorities in this PEM file.
    case file(String)
}

/// Our identity: PEM files, a certificate with its chain in any order, and its key.
package struct TLSIdentity: Sendable, Equatable {
    package let certificateFile: String
    package let keyFile: String

    package init(certificateFile: String, keyFile: String) {
        self.certificateFile = certificateFile
        self.keyFile = keyFile
    }
}
