import Glibc
import NIOCore
package import ServiceLifecycle

/// A port that a program listens on, and the settings that choose it: explains why it cannot be opened, and how to solve that.
package struct ListeningPort: Sendable {
    private let host: String
    private let port: Int
    private let hostSetting: String
    private let portSetting: String

    /// - Parameters:
    ///   - hostKey: The settings' keys in the configuration: `http.host`.
    ///   - portKey: `http.port`.
    package init(host: String, port: Int, hostKey: String, portKey: String) {
        self.host = host
        self.port = port
        hostSetting = ConfigurationError.variable(hostKey)
        portSetting = ConfigurationError.variable(portKey)
    }

    /// Why the port could not be opened.
    /// - Parameters:
    ///   - code: The `errno` of bind(2) or listen(2).
    ///   - words: The system's own text.
    package func failure(code: CInt, words: String) -> ListeningError {
        switch code {
        case EADDRINUSE:
            ListeningError("\(portSetting) \(port) on \(host) is taken; stop the other program or choose another port")
        case EADDRNOTAVAIL:
            ListeningError(
                "\(hostSetting) \(host) is no address of this machine; choose one that `ip address` shows, or 0.0.0.0 for all of them")
        case EACCES:
            ListeningError(
                "\(portSetting) \(port) on \(host) needs a privilege; choose a port above 1023 or grant CAP_NET_BIND_SERVICE")
        default: ListeningError("\(portSetting) \(port) on \(host) cannot be opened: \(words)")
        }
    }

    /// Runs a server of Hummingbird, and explains why it could not listen.
    /// - Throws: ``ListeningError``; everything else as it is.
    package func explaining(_ run: () async throws -> Void) async throws {
        do {
            try await run()
        } catch let error as IOError {
            throw failure(code: error.errnoCode, words: "\(error)")
        } catch is SocketAddressError.UnknownHost {
            throw unknownHost()
        }
    }

    package func unknownHost() -> ListeningError {
        ListeningError("\(hostSetting) \(host) cannot be resolved; choose an address of this machine, such as 127.0.0.1 or 0.0.0.0")
    }
}

/// A port cannot be opened: one sentence for the person who started the program.
package struct ListeningError: Error, Equatable, Sendable, CustomStringConvertible {
    package let description: String

    init(_ description: String) { self.description = description }
}

/// A server whose port is explained if it cannot be opened.
package struct ListeningService<Server: Service>: Service {
    private let port: ListeningPort
    private let server: Server

    package init(_ server: Server, on port: ListeningPort) {
        self.server = server
        self.port = port
    }

    package func run() async throws { try await port.explaining { try await server.run() } }
}
