import Synchronization
import SystemIO

/// The node of the broker to which a process is connected: all its connections go to the same one, and to the same next one where that is away.
///
/// So what one connection notices of its node holds for the others. A dispatcher publishes on one connection and reads the control stream on
/// another. Late confirmations tell it that the stream may be late too; from another node they would not.
final class CurrentNode: Sendable {
    typealias Node = RabbitMQConfiguration.Node

    private struct State {
        var current: (node: Node, address: SocketAddress)?
        /// It fell silent: it may still take connections, and leave them without an answer for seconds.
        var silent: (node: Node, address: SocketAddress)?
    }

    private let state = Mutex(State())

    func connected(to node: Node, _ address: SocketAddress) {
        state.withLock { state in
            state.current = (node, address)
            if state.silent?.address == address { state.silent = nil }
        }
    }

    func fellSilent(_ node: Node, _ address: SocketAddress) {
        state.withLock { state in
            state.silent = (node, address)
            if state.current?.address == address { state.current = nil }
        }
    }

    /// The current node first, the silent one last. The others have the same order in all of a process, and another one in each process: Swift's
    /// hashes are like that.
    func order(_ nodes: [Node]) -> [Node] {
        let state = state.withLock { $0 }
        func rank(_ node: Node) -> Int { node == state.current?.node ? 0 : node == state.silent?.node ? 2 : 1 }
        return nodes.sorted { (rank($0), $0.hashValue) < (rank($1), $1.hashValue) }
    }

    /// Likewise the addresses of a node. Of the others, those of the family that the resolver prefers (IPv6 or IPv4, RFC 6724) come first.
    func order(_ addresses: [SocketAddress]) -> [SocketAddress] {
        let state = state.withLock { $0 }
        let prefersIPv6 = addresses.first?.isIPv6
        func rank(_ address: SocketAddress) -> Int {
            if address == state.current?.address { return 0 }
            return (address == state.silent?.address ? 3 : 1) + (address.isIPv6 == prefersIPv6 ? 0 : 1)
        }
        return addresses.sorted { (rank($0), $0.hashValue) < (rank($1), $1.hashValue) }
    }
}
