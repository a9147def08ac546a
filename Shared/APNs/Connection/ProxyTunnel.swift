import SystemIO

/// Asks an HTTP proxy for a tunnel over an open connection to it. Nothing blocks.
struct ProxyTunnel {
    private var unsent: [UInt8]
    private var head: [UInt8] = []

    /// A proxy's answer is far shorter.
    private static let maximumHead = 16_384

    init(_ proxy: APNsProxy, to endpoint: APNsEndpoint) {
        let host = endpoint.host.contains(":") ? "[\(endpoint.host)]" : endpoint.host
        let target = "\(host):\(endpoint.port)"
        let authorization = proxy.authorization.map { "Proxy-Authorization: \($0)\r\n" } ?? ""
        unsent = Array("CONNECT \(target) HTTP/1.1\r\nHost: \(target)\r\n\(authorization)\r\n".utf8)
    }

    /// Goes on as far as possible without waiting.
    /// - Returns: the event to wait for; nil once the tunnel is there.
    mutating func proceed(over socket: TCPSocket, _ buffers: LoopBuffers) throws -> Poller.Interest? {
        while !unsent.isEmpty {
            guard case .bytes(let count) = try socket.write(unsent.span) else { return .write }
            unsent.removeFirst(count)
        }
        while true {
            switch try socket.read(into: &buffers.ciphertext) {
            case .wouldBlock: return .read
            case .endOfStream: throw ProxyError.ended
            case .bytes(let count):
                head += buffers.ciphertext[..<count]
                if try isComplete() { return nil }
            }
        }
    }

    private func isComplete() throws(ProxyError) -> Bool {
        let lines = String(decoding: head, as: UTF8.self)
        guard let end = lines.firstRange(of: "\r\n\r\n") else {
            guard head.count < Self.maximumHead else { throw .noAnswer }
            return false
        }
        let words = lines.prefix { $0 != "\r\n" }.split(separator: " ", maxSplits: 2)
        guard words.count >= 2, words[0].hasPrefix("HTTP/1."), let status = Int(words[1]) else { throw .noAnswer }
        guard (200..<300).contains(status) else { throw .refused(status) }
        // In TLS the client speaks first.
        guard end.upperBound == lines.endIndex else { throw .noAnswer }
        return true
    }
}

/// Why a proxy opened no tunnel.
enum ProxyError: Error, Equatable, CustomStringConvertible {
    case ended
    case noAnswer
    case refused(Int)
    case timeout

    var description: String {
        switch self {
        case .ended: "the proxy closed the connection before it opened a tunnel"
        case .noAnswer: "what the proxy said is no answer to CONNECT"
        case .refused(407): "the proxy wants other credentials (407): see APNS_PROXY_CREDENTIALS_FILE"
        case .refused(let status): "the proxy opens no tunnel (\(status))"
        case .timeout: "the proxy took too long to open a tunnel"
        }
    }
}
