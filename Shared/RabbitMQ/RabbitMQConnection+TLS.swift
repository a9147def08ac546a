import COpenSSL
import CRabbitMQ

extension RabbitMQConnection {
    /// A TLS socket that trusts only the given authorities and checks chain and name inside the handshake, before it sends any data of
    /// ours. librabbitmq 0.11's own check comes after the handshake and knows no IP addresses (docs/rabbitmq.md, TLS), so it is switched
    /// off.
    /// - Parameter host: the name or address that the certificate must have.
    static func makeTLSSocket(
        _ state: amqp_connection_state_t, _ configuration: RabbitMQConfiguration, host: String
    ) throws(RabbitMQError) -> OpaquePointer {
        _ = leaveOpenSSLAlone
        guard let socket = amqp_ssl_socket_new(state), let raw = amqp_ssl_socket_get_context(socket) else {
            throw RabbitMQError(.connectionLost, "amqp_ssl_socket_new", "out of memory")
        }
        let context = OpaquePointer(raw)
        guard let authorityFile = configuration.authorityFile, amqp_ssl_socket_set_cacert(socket, authorityFile) == AMQP_STATUS_OK.rawValue
        else {
            throw RabbitMQError(
                .configuration, "load the broker's certificate authority", "the file cannot be read or holds no certificate")
        }
        amqp_ssl_socket_set_verify_peer(socket, 1)
        amqp_ssl_socket_set_verify_hostname(socket, 0)
        // SSL_CTX_set_min_proto_version is a macro over this.
        SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, Int(TLS1_2_VERSION), nil)
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nil)
        let parameters = SSL_CTX_get0_param(context)
        let isAddress = X509_VERIFY_PARAM_set1_ip_asc(parameters, host) == 1
        guard isAddress || X509_VERIFY_PARAM_set1_host(parameters, host, 0) == 1 else {
            throw RabbitMQError(.configuration, "set the broker's expected name", "not a host name")
        }
        SSL_CTX_set_info_callback(context, nameTheServer)
        return socket
    }

    /// The process's other users of OpenSSL initialise it; librabbitmq must not set it up or take it down under them.
    private static let leaveOpenSSLAlone: Void = amqp_set_initialize_ssl_library(0)
}

/// The library gets one address at a time and would send that as server name: sets the name that will be verified instead (none for an
/// address, RFC 6066 section 3).
private func nameTheServer(_ session: OpaquePointer?, _ place: Int32, _ value: Int32) {
    guard place == SSL_CB_HANDSHAKE_START, let session else { return }
    let name = X509_VERIFY_PARAM_get0_host(SSL_get0_param(session), 0)
    // SSL_set_tlsext_host_name is a macro over this.
    SSL_ctrl(session, SSL_CTRL_SET_TLSEXT_HOSTNAME, Int(TLSEXT_NAMETYPE_host_name), UnsafeMutableRawPointer(mutating: name))
}
