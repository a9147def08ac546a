import CRabbitMQ
import Glibc

/// The broker's address and our account there.
///
/// The password stands in the URI or, better, in a file that is read again at every connect, so that it can be rotated under a running
/// process. It never shows: `description` is hosts, ports and virtual host only.
package struct RabbitMQConfiguration: Sendable {
    /// One address of the broker. A name may stand for several nodes.
    package struct Node: Hashable, Sendable, CustomStringConvertible {
        package let host: String
        package let port: Int

        package init(host: String, port: Int) {
            self.host = host
            self.port = port
        }

        package var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }
    }

    /// The nodes, at least one. Connections go to ``current``, or to the next one if that cannot be reached.
    package var nodes: [Node]
    /// Shared by all copies, and so by all connections of a process.
    var current = CurrentNode()

    /// The configuration for connections that say something about their queue when they fail, and nothing about the node of the others.
    package var withNodeOfItsOwn: RabbitMQConfiguration {
        var other = self
        other.current = CurrentNode()
        return other
    }

    /// The next connections go to the node that another one of the process has reached.
    /// - Parameter peer: The peer of the connection that reached it, ``RabbitMQConnection/peer``.
    package func prefer(peer: String) { current.prefer(peer: peer) }
    package let virtualHost: String
    /// True for `amqps://`: TLS 1.2 or later, the broker's certificate and name are checked inside the handshake.
    package let usesTLS: Bool
    let user: String
    let uriPassword: String
    package let passwordFile: String?
    /// PEM file with the authorities that may have signed the broker's certificate. Required with TLS: librabbitmq 0.11 knows no system
    /// store.
    package let authorityFile: String?
    /// Shown in the broker's list of connections.
    package var connectionName: String
    /// A silent node is left after two of them, and sending must go on within ten seconds. RabbitMQ's guide to heartbeats advises 5 to 20 s
    /// for most; zero would switch them off and is refused.
    package var heartbeat: Duration = .seconds(4)
    /// The limit for each address, TCP and TLS together.
    package var connectTimeout: Duration = .seconds(3)
    /// A larger message is not kept: it arrives as ``RabbitMQDelivery/isOversized``. Never allocated.
    package var maximumBodyBytes = 16 << 20

    /// - Parameters:
    ///   - uri: `amqp[s]://user:password@host:port,host:port/vhost`, percent-encoded; no path or `/` means the virtual host `/`.
    ///   - passwordFile: the file whose first line replaces the URI's password.
    /// - Throws: ``RabbitMQError`` with code `configuration`; the message never repeats the URI.
    package init(
        uri: String, passwordFile: String? = nil, authorityFile: String? = nil, connectionName: String = "push"
    ) throws(RabbitMQError) {
        guard uri.utf8.count <= 2048, let parts = ParsedURI(uri) else {
            throw RabbitMQError(
                .configuration, "amqp_parse_url", "it is not of the form amqp[s]://user:password@host:port,host:port/vhost")
        }
        nodes = parts.nodes
        virtualHost = parts.virtualHost.isEmpty ? "/" : parts.virtualHost
        usesTLS = parts.usesTLS
        user = parts.user
        uriPassword = parts.password
        self.passwordFile = passwordFile
        self.authorityFile = authorityFile
        self.connectionName = connectionName
        if usesTLS, authorityFile == nil {
            throw RabbitMQError(.configuration, "amqps", "amqps needs a file with the broker's certificate authority, RABBITMQ_CA_FILE")
        }
    }

    /// The password as it is now.
    func password() throws(RabbitMQError) -> String {
        guard let passwordFile else { return uriPassword }
        guard let file = fopen(passwordFile, "re") else {
            throw RabbitMQError(.configuration, "open the password file", String(cString: strerror(errno)))
        }
        defer { fclose(file) }
        var line = [UInt8](repeating: 0, count: 1024)
        let count = fread(&line, 1, line.count, file)
        return String(decoding: line[..<count].prefix { $0 != UInt8(ascii: "\n") && $0 != UInt8(ascii: "\r") }, as: UTF8.self)
    }
}

extension RabbitMQConfiguration: CustomStringConvertible, CustomReflectable {
    package var description: String {
        "\(usesTLS ? "amqps" : "amqp")://\(nodes.map(\.description).joined(separator: ","))/\(virtualHost == "/" ? "" : virtualHost)"
    }
    package var customMirror: Mirror { Mirror(self, children: ["broker": description]) }
}

private struct ParsedURI {
    var user, password, virtualHost: String
    var nodes: [RabbitMQConfiguration.Node]
    var usesTLS: Bool

    /// librabbitmq reads URIs with one host, so it reads this one once for each of its hosts.
    init?(_ uri: String) {
        let single = ParsedURI.split(uri).map(OneHostURI.init)
        guard let first = single.first.flatMap(\.self) else { return nil }
        (user, password, virtualHost, usesTLS) = (first.user, first.password, first.virtualHost, first.usesTLS)
        nodes = single.compactMap { $0.map { RabbitMQConfiguration.Node(host: $0.host, port: $0.port) } }
        guard nodes.count == single.count else { return nil }
    }

    /// Splits the URI into one for each of its hosts; empty where one of several is missing, for which librabbitmq would put `localhost`.
    private static func split(_ uri: String) -> [String] {
        guard let scheme = uri.firstRange(of: "://") else { return [uri] }
        let authority = uri[scheme.upperBound...].prefix { $0 != "/" }
        let list = authority.lastIndex(of: "@").map { authority[authority.index(after: $0)...] } ?? authority
        let hosts = list.split(separator: ",", omittingEmptySubsequences: false)
        guard hosts.count == 1 || hosts.allSatisfy({ !$0.isEmpty && $0.first != ":" }) else { return [] }
        return hosts.map { String(uri[..<list.startIndex] + $0 + uri[list.endIndex...]) }
    }
}

/// Copies the result of `amqp_parse_url`, which writes into its argument and points into it.
private struct OneHostURI {
    var user, password, host, virtualHost: String
    var port: Int
    var usesTLS: Bool

    init?(_ uri: String) {
        guard let text = strdup(uri) else { return nil }
        defer { free(text) }
        var info = amqp_connection_info()
        amqp_default_connection_info(&info)
        guard amqp_parse_url(text, &info) == AMQP_STATUS_OK.rawValue, (1...65_535).contains(info.port) else { return nil }
        user = String(cString: info.user)
        password = String(cString: info.password)
        host = String(cString: info.host)
        virtualHost = String(cString: info.vhost)
        port = Int(info.port)
        usesTLS = info.ssl != 0
    }
}
