import CRabbitMQ

/// Why a broker operation failed: its code, the operation, and the library's or the broker's own text.
///
/// Only `invalidArgument` leaves the connection usable. After any other it is dead: the result of unconfirmed messages is unknown, and the
/// broker will deliver unacknowledged messages again (docs/rabbitmq.md, Receiving).
package struct RabbitMQError: Error, Equatable, CustomStringConvertible {
    package enum Code: Equatable, Sendable {
        /// The settings cannot work: a bad URI, an unreadable password or authority file.
        case configuration
        /// No address gave a TCP (and TLS) connection.
        case unreachable
        /// The broker's certificate or name is not trusted.
        case untrusted
        /// The broker closed the connection, or refused the login (403). The number is AMQP's reply code.
        case connectionClosed(UInt16)
        /// The broker closed the channel (404 not found, 406 precondition failed, …).
        case channelClosed(UInt16)
        /// Nothing came for two heartbeats.
        case heartbeatTimeout
        /// An answer did not come in time.
        case timedOut
        /// The connection ended under us.
        case connectionLost
        /// Bytes that are not AMQP, or frames out of order.
        case malformed
        /// Refused before anything was sent: a name over 255 bytes, headers over 64 KiB.
        case invalidArgument
    }

    package let code: Code
    package let operation: String
    package let message: String

    package init(_ code: Code, _ operation: String, _ message: String) {
        self.code = code
        self.operation = operation
        self.message = message
    }

    package var description: String { "\(operation): \(message) (\(code))" }

    /// The node answered, and a person has to change something: a password, a certificate, a limit.
    var isRefusal: Bool {
        switch code {
        case .unreachable, .timedOut, .connectionLost, .heartbeatTimeout: false
        // CONNECTION_FORCED and INTERNAL_ERROR (AMQP 0-9-1 section 1.2): the node stops, or is cut off from the cluster's majority.
        case .connectionClosed(let reply): reply != 320 && reply != 541
        default: true
        }
    }

    /// Maps an `amqp_status_enum` value.
    init(status: Int32, _ operation: String) {
        let code: Code =
            switch amqp_status_enum(rawValue: status) {
            case AMQP_STATUS_HEARTBEAT_TIMEOUT: .heartbeatTimeout
            case AMQP_STATUS_TIMEOUT: .timedOut
            case AMQP_STATUS_SSL_HOSTNAME_VERIFY_FAILED, AMQP_STATUS_SSL_PEER_VERIFY_FAILED, AMQP_STATUS_SSL_CONNECTION_FAILED: .untrusted
            case AMQP_STATUS_BAD_AMQP_DATA, AMQP_STATUS_UNKNOWN_CLASS, AMQP_STATUS_UNKNOWN_METHOD, AMQP_STATUS_WRONG_METHOD,
                AMQP_STATUS_UNEXPECTED_STATE, AMQP_STATUS_INCOMPATIBLE_AMQP_VERSION:
                .malformed
            default: .connectionLost
            }
        let words = String(cString: amqp_error_string2(status))
        self.init(code, operation, code == .untrusted ? words + "; check the certificate's authority and name" : words)
    }
}
