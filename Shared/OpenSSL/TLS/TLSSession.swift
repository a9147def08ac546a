internal import COpenSSL

/// One TLS connection without a socket: ciphertext in, ciphertext out (memory BIOs, BIO_s_mem(3)). Not Sendable: one thread.
///
/// After every call that may have produced output (`handshake`, `read`, `write`, `shutdown`, also those that threw: an alert may be
/// waiting) send what `withOutput` lends.
package final class TLSSession {
    package enum HandshakeResult: Equatable, Sendable {
        case complete
        /// More bytes from the peer are needed; flush the output first.
        case incomplete
    }

    package enum ReadResult: Equatable, Sendable {
        /// This many bytes of plaintext were appended.
        case bytes(Int)
        /// No more until further ciphertext arrives.
        case incomplete
        /// The peer has announced that it will send no more (close_notify). A socket that ends without it was cut off.
        case closed
    }

    let session: OpaquePointer
    /// Keeps the selection callback's owner alive.
    private let context: TLSContext
    /// The bytes from the peer to OpenSSL, and back. Both belong to `session`.
    private let incoming: OpaquePointer
    private let outgoing: OpaquePointer
    /// How much of `outgoing` has been sent.
    private var sent = 0

    /// - Parameter serverName: the name that the peer's certificate must bear, also sent as SNI; or an IP address, which must be among the
    ///   certificate's IP entries and is not sent (RFC 6066 section 3).
    package convenience init(client context: TLSContext, serverName: String) throws(TLSError) {
        try self.init(context)
        SSL_set_connect_state(session)
        let parameters = SSL_get0_param(session)
        if X509_VERIFY_PARAM_set1_ip_asc(parameters, serverName) == 1 { return }
        ERR_clear_error()
        X509_VERIFY_PARAM_set_hostflags(parameters, UInt32(X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS))
        // A C string would end at a zero byte, so that OpenSSL would check another name than the given one.
        guard !serverName.isEmpty, !serverName.utf8.contains(0), X509_VERIFY_PARAM_set1_host(parameters, serverName, 0) == 1 else {
            throw .last("X509_VERIFY_PARAM_set1_host")
        }
        guard push_SSL_set_tlsext_host_name(session, serverName) == 1 else { throw .last("SSL_set_tlsext_host_name") }
    }

    package convenience init(server context: TLSContext) throws(TLSError) {
        try self.init(context)
        SSL_set_accept_state(session)
    }

    private init(_ context: TLSContext) throws(TLSError) {
        ERR_clear_error()
        guard let session = SSL_new(context.handle) else { throw .last("SSL_new") }
        guard let incoming = BIO_new(BIO_s_mem()), let outgoing = BIO_new(BIO_s_mem()) else {
            SSL_free(session)
            throw .last("BIO_new")
        }
        // An empty incoming buffer means "later", not "end".
        _ = push_BIO_set_mem_eof_return(incoming, -1)
        SSL_set_bio(session, incoming, outgoing)
        self.session = session
        self.context = context
        self.incoming = incoming
        self.outgoing = outgoing
    }

    deinit { SSL_free(session) }

    /// Takes ciphertext that arrived from the peer. It is copied; `handshake` and `read` process it.
    package func receive(_ ciphertext: Span<UInt8>) {
        ciphertext.withUnsafeBufferPointer { buffer in
            guard let base = buffer.baseAddress, !buffer.isEmpty else { return }
            // Into a memory BIO this fails only when memory runs out, and then everything does.
            _ = BIO_write(incoming, base, Int32(clamping: buffer.count))
        }
    }

    /// Goes on with the handshake as far as the bytes received allow.
    package func handshake() throws(TLSError) -> HandshakeResult {
        ERR_clear_error()
        let result = SSL_do_handshake(session)
        if result == 1 { return .complete }
        if wantsMore(result) { return .incomplete }
        throw handshakeError()
    }

    private func handshakeError() -> TLSError {
        let verified = SSL_get_verify_result(session)
        guard verified != X509_V_OK, SSL_get_verify_mode(session) != SSL_VERIFY_NONE else { return .lastOfSession("SSL_do_handshake") }
        ERR_clear_error()
        let message = X509_verify_cert_error_string(verified).map { String(cString: $0) } ?? "not verified"
        return TLSError(code: .certificate(verifyResult: Int(verified)), operation: "SSL_do_handshake", message: message)
    }

    private func wantsMore(_ result: Int32) -> Bool {
        let error = SSL_get_error(session, result)
        // Writes go to memory, so OpenSSL cannot wait for writing; that case is treated alike.
        return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE
    }

    /// Appends the plaintext of every whole record received so far.
    /// - Parameter limit: stops after this many bytes, and at most a record more. A caller that gives one must call again until
    ///   `incomplete`: the socket does not become readable for bytes that are in here already.
    package func read(into plaintext: inout [UInt8], limit: Int = .max) throws(TLSError) -> ReadResult {
        var total = 0
        while total < limit {
            var count = 0
            var result: Int32 = 0
            plaintext.append(addingCapacity: Self.recordBytes) { output in
                output.withUnsafeMutableBufferPointer { buffer, initialized in
                    ERR_clear_error()
                    result = SSL_read_ex(session, buffer.baseAddress.map { $0 + initialized }, buffer.count - initialized, &count)
                    initialized += result == 1 ? count : 0
                }
            }
            if result != 1 { return try readEnd(result, total) }
            total += count
        }
        return .bytes(total)
    }

    private func readEnd(_ result: Int32, _ total: Int) throws(TLSError) -> ReadResult {
        if total > 0, SSL_get_error(session, result) != SSL_ERROR_SSL { return .bytes(total) }
        switch SSL_get_error(session, result) {
        case SSL_ERROR_WANT_READ, SSL_ERROR_WANT_WRITE: return .incomplete
        case SSL_ERROR_ZERO_RETURN: return .closed
        default: throw .lastOfSession("SSL_read")
        }
    }

    /// Encrypts the whole span, one record for each started 16 KiB: gather small pieces first. Only after the handshake.
    package func write(_ plaintext: Span<UInt8>) throws(TLSError) {
        try plaintext.withUnsafeBytes { (bytes) throws(TLSError) in
            var offset = 0
            while offset < bytes.count {
                ERR_clear_error()
                var count = 0
                guard SSL_write_ex(session, bytes.baseAddress.map { $0 + offset }, bytes.count - offset, &count) == 1 else {
                    throw .lastOfSession("SSL_write")
                }
                offset += count
            }
        }
    }

    /// Received bytes that are not processed yet.
    package var pendingInput: Int { push_BIO_get_mem_data(incoming, nil) }

    /// Bytes of output in memory, including those that are sent already.
    var heldOutput: Int { push_BIO_get_mem_data(outgoing, nil) }

    /// Bytes waiting to be sent.
    package var pendingOutput: Int { push_BIO_get_mem_data(outgoing, nil) - sent }

    /// Lends the ciphertext to send; `send` returns how many bytes it has taken, and the rest is lent again next time, without being
    /// copied. Not called when there is none.
    /// - Returns: true when nothing is left.
    @discardableResult
    package func withOutput<E: Error>(_ send: (Span<UInt8>) throws(E) -> Int) throws(E) -> Bool {
        var start: UnsafeMutablePointer<CChar>?
        let count = push_BIO_get_mem_data(outgoing, &start)
        guard let start, count > sent else { return true }
        let waiting = UnsafeRawBufferPointer(start: UnsafeRawPointer(start) + sent, count: count - sent)
        sent += try send(waiting.bindMemory(to: UInt8.self).span)
        guard sent >= count else {
            if sent >= max(Self.worthDropping, count - sent) { dropSent() }
            return false
        }
        _ = push_BIO_reset(outgoing)
        sent = 0
        return true
    }

    /// Frees the memory of sent bytes while others wait: with a peer that always lags a little, it would else grow by all that is sent. Not
    /// before there are more of them than of the rest, which OpenSSL moves at its next write: so each byte is moved about once.
    private func dropSent() {
        withUnsafeTemporaryAllocation(byteCount: Self.recordBytes, alignment: 1) { scratch in
            while sent > 0 {
                let count = BIO_read(outgoing, scratch.baseAddress, Int32(clamping: min(sent, scratch.count)))
                guard count > 0 else { return }
                sent -= Int(count)
            }
        }
    }

    private static let worthDropping = 65_536

    /// All ciphertext to send, as an array; for tests and short exchanges.
    package func takeOutput() -> [UInt8] {
        var output: [UInt8] = []
        withOutput { bytes in
            bytes.withUnsafeBufferPointer { output.append(contentsOf: $0) }
            return bytes.count
        }
        return output
    }

    /// Announces that we will send no more (close_notify). Send the output, then close the socket.
    package func shutdown() {
        ERR_clear_error()
        // 0: the peer's own close_notify has not come yet, which need not be awaited. Errors: the session is over already.
        _ = SSL_shutdown(session)
        ERR_clear_error()
    }

    /// A TLS record holds at most 2^14 bytes of plaintext (RFC 8446 section 5.1).
    package static let recordBytes = 16_384
}

extension TLSSession {
    /// The agreed protocol (RFC 7301), after the handshake. Nil: none; a caller that needs `h2` must not go on.
    package var negotiatedALPN: String? {
        var name: UnsafePointer<UInt8>?
        var length: UInt32 = 0
        SSL_get0_alpn_selected(session, &name, &length)
        guard let name, length > 0 else { return nil }
        return String(decoding: UnsafeBufferPointer(start: name, count: Int(length)), as: UTF8.self)
    }

    /// `TLSv1.3`
    package var protocolVersion: String { String(cString: SSL_get_version(session)) }

    /// The common name in the peer's certificate; nil when it showed none.
    package var peerCertificateCommonName: String? {
        guard let certificate = SSL_get1_peer_certificate(session) else { return nil }
        defer { X509_free(certificate) }
        var text = [UInt8](repeating: 0, count: 256)
        let length = text.withUnsafeMutableBytes { buffer in
            X509_NAME_get_text_by_NID(
                X509_get_subject_name(certificate), NID_commonName, buffer.bindMemory(to: CChar.self).baseAddress, Int32(buffer.count))
        }
        return length < 0 ? nil : String(decoding: text.prefix(Int(length)), as: UTF8.self)
    }
}
