import CRabbitMQ
import Glibc
import SystemIO

/// Owns one AMQP 0-9-1 connection, through librabbitmq, with one channel for all calls and further ones for publishing. Not Sendable:
/// librabbitmq is not thread-safe at all, so exactly one thread opens, uses and closes it; only ``breaker`` may be touched from another.
///
/// Calls that wait for an answer (declare, consume, …) end within 5 s. Calls that only write (publish, acknowledge) can wait for the
/// socket; `TCP_USER_TIMEOUT` ends that after 8 s, ``breaker`` sooner. After any error but `invalidArgument` the connection is dead and
/// every call throws: close it and open another.
package final class RabbitMQConnection {
    /// The channel of all calls, except publishes over a channel of their own.
    static let channel: amqp_channel_t = 1
    /// The greatest number that a channel has had.
    var lastChannel = channel
    /// Numbers of channels that were closed.
    var freeChannels: [UInt16] = []
    /// The greatest frame: from 4.1 on RabbitMQ refuses less than 8192 (docs/rabbitmq.md, Logging in). 131072 is what every version takes.
    private static let frameMaximum: Int32 = 131_072
    private static let answerTimeout = timeval(tv_sec: 5, tv_usec: 0)

    let state: amqp_connection_state_t
    let pool = ScratchPool()
    package let breaker: SocketBreaker
    let maximumBodyBytes: Int
    /// The node that it reached: `192.0.2.1:5672`.
    package let peer: String
    private let reportFailure: () -> Void
    var assembly = MessageAssembly()
    /// The channel of the message that is being assembled.
    var assemblyChannel = channel
    /// True when the last ``receive(into:limit:)`` ended because no more had come.
    var isDrained = false
    var lastDrain = ContinuousClock.now
    /// Events that came just before a write; the next receive begins with them.
    var earlyEvents: [RabbitMQEvent] = []
    private var isUsable = true
    private var isOpen = true

    /// Connects, checks the broker's certificate, logs in and opens the channel. Tries the node of the process's other connections first,
    /// then the others, and every address of each. An address has `connectTimeout`, the login 5 s. Each node has a certificate, a limit of
    /// connections and a load balancer of its own: if one refuses, another may serve.
    /// - Throws: if no node serves: the first refusal, else the last error. A wrong password at once: all nodes have the same accounts, and
    ///   each attempt counts against ours.
    package static func open(_ configuration: RabbitMQConfiguration) throws(RabbitMQError) -> RabbitMQConnection {
        guard !configuration.nodes.isEmpty else { throw RabbitMQError(.configuration, "connect", "no node is named") }
        var failure = RabbitMQError(.unreachable, "connect", "no node has an address")
        for node in configuration.current.order(configuration.nodes) {
            let addresses: [SocketAddress]
            do {
                addresses = try SocketAddress.resolve(host: node.host, port: node.port)
            } catch {
                if !failure.isRefusal { failure = RabbitMQError(.unreachable, "resolve \(node.host)", "\(error)") }
                continue
            }
            for address in configuration.current.order(addresses) {
                do throws(RabbitMQError) {
                    let connection = try RabbitMQConnection(configuration, node, address)
                    configuration.current.connected(to: node, address)
                    return connection
                } catch {
                    guard error.code != .configuration, error.code != .connectionClosed(403) else { throw error }
                    configuration.current.failed(node, address)
                    if !failure.isRefusal { failure = error }
                }
            }
        }
        throw failure
    }

    private init(
        _ configuration: RabbitMQConfiguration, _ node: RabbitMQConfiguration.Node, _ address: SocketAddress
    ) throws(RabbitMQError) {
        guard let state = amqp_new_connection() else { throw RabbitMQError(.connectionLost, "amqp_new_connection", "out of memory") }
        self.state = state
        maximumBodyBytes = configuration.maximumBodyBytes
        peer = "\(address)"
        reportFailure = { configuration.current.failed(node, address) }
        do throws(RabbitMQError) {
            let socket = try configuration.usesTLS ? Self.makeTLSSocket(state, configuration, host: node.host) : Self.makeSocket(state)
            var timeout = timeval(configuration.connectTimeout)
            let status = amqp_socket_open_noblock(socket, address.host, Int32(node.port), &timeout)
            guard status == AMQP_STATUS_OK.rawValue else {
                let error = RabbitMQError(status: status, "connect to \(address)")
                throw error.code == .untrusted ? error : RabbitMQError(.unreachable, error.operation, error.message)
            }
            breaker = SocketBreaker(amqp_get_sockfd(state))
        } catch {
            amqp_destroy_connection(state)
            isOpen = false
            throw error
        }
        do throws(RabbitMQError) {
            try limitUnansweredBytes()
            try logIn(configuration, at: "\(address)")
        } catch {
            abandon()
            throw error
        }
    }

    /// Logs in over a socket that is connected already, and closes it in the end. For tests that play the broker.
    init(_ configuration: RabbitMQConfiguration, connected descriptor: Int32) throws(RabbitMQError) {
        guard let state = amqp_new_connection() else { throw RabbitMQError(.connectionLost, "amqp_new_connection", "out of memory") }
        self.state = state
        maximumBodyBytes = configuration.maximumBodyBytes
        peer = "a connected socket"
        reportFailure = {}
        breaker = SocketBreaker(descriptor)
        do throws(RabbitMQError) {
            amqp_tcp_socket_set_sockfd(try Self.makeSocket(state), descriptor)
            try logIn(configuration, at: "a connected socket")
        } catch {
            abandon()
            throw error
        }
    }

    deinit { abandon() }

    private static func makeSocket(_ state: amqp_connection_state_t) throws(RabbitMQError) -> OpaquePointer {
        guard let socket = amqp_tcp_socket_new(state) else { throw RabbitMQError(.connectionLost, "amqp_tcp_socket_new", "out of memory") }
        return socket
    }

    /// The library's sends have no deadline: the kernel's is the only one. Works under a zero window too
    /// (docs/rabbitmq.md, Calls that hang).
    private func limitUnansweredBytes() throws(RabbitMQError) {
        var milliseconds: UInt32 = 8_000
        let result = setsockopt(
            amqp_get_sockfd(state), Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, &milliseconds, socklen_t(MemoryLayout<UInt32>.size))
        guard result == 0 else { throw RabbitMQError(.connectionLost, "TCP_USER_TIMEOUT", String(cString: strerror(errno))) }
    }

    private func logIn(_ configuration: RabbitMQConfiguration, at place: String) throws(RabbitMQError) {
        var timeout = Self.answerTimeout
        amqp_set_handshake_timeout(state, &timeout)
        amqp_set_rpc_timeout(state, &timeout)
        let heartbeat = Int32(configuration.heartbeat.components.seconds)
        guard heartbeat > 0 else { throw RabbitMQError(.configuration, "heartbeat", "must be at least one second") }
        // Without the first two the broker never reports an alarm or of a deleted queue (docs/rabbitmq.md, Logging in).
        var properties = pool.table(
            ["connection_name": configuration.connectionName, "product": "push"],
            capabilities: [
                "connection.blocked", "consumer_cancel_notify", "basic.nack", "publisher_confirms", "authentication_failure_close",
            ])
        let password = try configuration.password()
        let reply = push_amqp_login_plain(
            state, configuration.virtualHost, Self.frameMaximum, heartbeat, &properties, configuration.user, password)
        pool.recycle()
        try check(reply, "log in to \(place)")
        guard amqp_get_heartbeat(state) > 0 else { throw RabbitMQError(.malformed, "log in", "the broker switched heartbeats off") }
        _ = amqp_channel_open(state, Self.channel)
        try check(amqp_get_rpc_reply(state), "channel.open")
    }

    // MARK: The end

    /// From now on calls wait for their answers at most this long, instead of 5 s.
    package func waitForAnswers(atMost bound: Duration) {
        guard isOpen else { return }
        var budget = timeval(bound)
        amqp_set_rpc_timeout(state, &budget)
    }

    /// Closes the connection properly (at most 2 s) and frees everything. Only worth calling when every message is confirmed; else drop the
    /// object.
    package func close() {
        if isUsable, isOpen {
            waitForAnswers(atMost: .seconds(2))
            _ = amqp_connection_close(state, AMQP_REPLY_SUCCESS)
        }
        abandon()
    }

    private func abandon() {
        isUsable = false
        guard isOpen else { return }
        isOpen = false
        breaker.disarm()
        amqp_destroy_connection(state)
    }

    // MARK: Errors

    /// If `work` fails, the node answers but does not do its work: the process's next connections go to another one.
    package func leavingNodeOnFailure(_ work: () throws(RabbitMQError) -> Void) throws(RabbitMQError) {
        do throws(RabbitMQError) { try work() } catch {
            reportFailure()
            throw error
        }
    }

    /// The process's next connections go to another node.
    package func leaveNode() { reportFailure() }

    func requireUsable(_ operation: String) throws(RabbitMQError) {
        guard isUsable else { throw RabbitMQError(.connectionLost, operation, "the connection has ended") }
    }

    /// Notes that the connection cannot be used any more, and passes the error on.
    func dead(_ error: RabbitMQError) -> RabbitMQError {
        isUsable = false
        if error.code == .heartbeatTimeout { reportFailure() }
        return error
    }

    /// A send that is not OK may leave a part of a frame or message on the wire, so the connection is dead (docs/rabbitmq.md, Receiving).
    func check(_ status: Int32, _ operation: String) throws(RabbitMQError) {
        guard status == AMQP_STATUS_OK.rawValue else { throw dead(RabbitMQError(status: status, operation)) }
    }

    /// Turns librabbitmq's reply union into success or one typed error.
    func check(_ reply: amqp_rpc_reply_t, _ operation: String) throws(RabbitMQError) {
        switch reply.reply_type {
        case AMQP_RESPONSE_NORMAL: return
        case AMQP_RESPONSE_LIBRARY_EXCEPTION: throw dead(RabbitMQError(status: reply.library_error, operation))
        case AMQP_RESPONSE_SERVER_EXCEPTION: throw closed(by: reply.reply, operation)
        default: throw dead(RabbitMQError(.connectionLost, operation, "the broker sent no reply"))
        }
    }

    /// The broker closed the channel or the connection: answers with close-ok, which the library does not.
    func closed(by method: amqp_method_t, on channel: amqp_channel_t = channel, _ operation: String) -> RabbitMQError {
        switch (method.id, method.decoded) {
        case (MethodID.connectionClose, let decoded?):
            let close = decoded.load(as: amqp_connection_close_t.self)
            var answer = amqp_connection_close_ok_t()
            _ = amqp_send_method(state, 0, MethodID.connectionCloseOK, &answer)
            return dead(RabbitMQError(.connectionClosed(close.reply_code), operation, String(close.reply_text)))
        case (MethodID.channelClose, let decoded?):
            let close = decoded.load(as: amqp_channel_close_t.self)
            var answer = amqp_channel_close_ok_t()
            _ = amqp_send_method(state, channel, MethodID.channelCloseOK, &answer)
            return dead(RabbitMQError(.channelClosed(close.reply_code), operation, String(close.reply_text)))
        default:
            return dead(RabbitMQError(.malformed, operation, "unexpected method \(method.id)"))
        }
    }
}

/// The method numbers that are handled (AMQP 0-9-1, class in the high half). The header's macros hold casts, which Swift does not import.
enum MethodID {
    static let connectionClose: UInt32 = 0x000a_0032
    static let connectionCloseOK: UInt32 = 0x000a_0033
    static let connectionBlocked: UInt32 = 0x000a_003c
    static let connectionUnblocked: UInt32 = 0x000a_003d
    static let channelFlow: UInt32 = 0x0014_0014
    static let channelFlowOK: UInt32 = 0x0014_0015
    static let channelClose: UInt32 = 0x0014_0028
    static let channelCloseOK: UInt32 = 0x0014_0029
    static let basicCancel: UInt32 = 0x003c_001e
    static let basicReturn: UInt32 = 0x003c_0032
    static let basicDeliver: UInt32 = 0x003c_003c
    static let basicAck: UInt32 = 0x003c_0050
    static let basicNack: UInt32 = 0x003c_0078
}

extension String {
    init(_ bytes: amqp_bytes_t) {
        self.init(decoding: UnsafeRawBufferPointer(start: bytes.bytes, count: bytes.len), as: UTF8.self)
    }
}

extension timeval {
    init(_ duration: Duration) {
        let (seconds, attoseconds) = duration.components
        self.init(tv_sec: Int(seconds), tv_usec: Int(attoseconds / 1_000_000_000_000))
    }
}

extension RabbitMQConnection {
    /// How many unacknowledged messages each consumer that is begun after this call may have. (`global` false: RabbitMQ's per-consumer
    /// limit.)
    package func limitUnacknowledged(_ count: UInt16) throws(RabbitMQError) {
        try call("basic.qos") { _ = amqp_basic_qos(state, Self.channel, 0, count, 0) }
    }

    /// Begins to consume, with acknowledgements.
    /// - Parameters:
    ///   - consumer: a number of the caller's, not negative; deliveries carry it.
    ///   - arguments: the start of a stream, as `x-stream-offset`.
    package func consume(queue: String, consumer: Int, arguments: [String: RabbitMQValue] = [:]) throws(RabbitMQError) {
        try call("basic.consume \(queue)") {
            _ = amqp_basic_consume(
                state, Self.channel, pool.bytes(queue), pool.bytes(String(consumer)), 0, 0, 0, pool.table(arguments))
        }
    }

    /// Ends a consumer. Messages that were on their way still arrive with the next receives.
    package func cancel(consumer: Int) throws(RabbitMQError) {
        try call("basic.cancel") { _ = amqp_basic_cancel(state, Self.channel, pool.bytes(String(consumer))) }
    }

    /// Writes an acknowledgement: the broker forgets the message.
    /// - Parameters:
    ///   - tag: an unsettled delivery of this connection. A tag that was settled already makes the broker close the channel.
    ///   - multiple: also all unsettled deliveries before it.
    package func acknowledge(_ tag: UInt64, multiple: Bool) throws(RabbitMQError) {
        try requireUsable("basic.ack")
        try check(amqp_basic_ack(state, Self.channel, tag, multiple ? 1 : 0), "basic.ack")
    }

    /// Writes a negative acknowledgement.
    /// - Parameter requeue: true hands the message back to its queue; false drops it, to the queue's dead-letter exchange if it has one.
    package func refuse(_ tag: UInt64, requeue: Bool) throws(RabbitMQError) {
        try requireUsable("basic.nack")
        try check(amqp_basic_nack(state, Self.channel, tag, 0, requeue ? 1 : 0), "basic.nack")
    }
}

extension RabbitMQConnection {
    /// The first number of the broker's version, which it sends at the login; 0 if it does not.
    package func brokerMajorVersion() throws(RabbitMQError) -> Int {
        try requireUsable("version")
        guard let properties = amqp_get_server_properties(state)?.pointee else { return 0 }
        for index in 0..<Int(properties.num_entries) {
            let entry = properties.entries[index]
            guard String(entry.key) == "version", entry.value.kind == UInt8(AMQP_FIELD_KIND_UTF8.rawValue) else { continue }
            return Int(String(entry.value.value.bytes).prefix { $0 != "." }) ?? 0
        }
        return 0
    }
}
