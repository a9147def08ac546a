import Glibc

@testable import RabbitMQ

/// A broker that says anything: its bytes lie in a socket before the connection speaks, and then it is gone.
enum FuzzBroker {
    private static let configuration: RabbitMQConfiguration? = {
        do { return try RabbitMQConfiguration(uri: "amqp://guest:guest@127.0.0.1/", connectionName: "fuzz") } catch { return nil }
    }()

    /// - Parameter bytes: The first one's lowest bit says whether the login goes well before them, the next whether a queue is declared and
    ///   consumed, the third whether it is asked how full it is.
    static func run(_ bytes: [UInt8]) {
        guard let first = bytes.first, let configuration else { return }
        var sockets: [Int32] = [-1, -1]
        guard socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &sockets) == 0 else { preconditionFailure("no sockets") }
        defer { close(sockets[1]) }
        say((first & 1 == 0 ? login : []) + bytes.dropFirst(), sockets[1])
        do throws(RabbitMQError) {
            let connection = try RabbitMQConnection(configuration, connected: sockets[0])
            if first & 2 != 0 {
                _ = try connection.declareQueue("q")
                try connection.consume(queue: "q", consumer: 1)
            }
            if first & 4 != 0 {
                _ = try connection.queueState("q")
            }
            var events: [RabbitMQEvent] = []
            // The end of the connection is an error.
            while events.count < 10_000 { try connection.receive(into: &events) }
        } catch {
            precondition(!error.description.isEmpty, "an end is described in words")
        }
    }

    private static func say(_ bytes: [UInt8], _ socket: Int32) {
        let sent = bytes.withUnsafeBytes { send(socket, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT)) }
        precondition(sent == bytes.count, "the socket has room for an input")
        shutdown(socket, Int32(SHUT_WR))
    }

    /// connection.start, tune, open-ok, channel.open-ok.
    private static let login =
        frame(0, [0, 10, 0, 10, 0, 9, 0, 0, 0, 0] + long("PLAIN") + long("en_US"))
        + frame(0, [0, 10, 0, 30, 0, 1, 0, 2, 0, 0, 0, 60]) + frame(0, [0, 10, 0, 41, 0]) + frame(1, [0, 20, 0, 11, 0, 0, 0, 0])

    private static func long(_ text: String) -> [UInt8] { [0, 0, 0, UInt8(text.utf8.count)] + Array(text.utf8) }

    private static func frame(_ channel: UInt8, _ payload: [UInt8]) -> [UInt8] {
        [1, 0, channel, 0, 0, 0, UInt8(payload.count)] + payload + [0xce]
    }
}
