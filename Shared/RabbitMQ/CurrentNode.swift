import Synchronization
import SystemIO

/// The node of the broker to which a process is connected: all connections that share this object go to the same one, and to the same next
/// one if that fails.
///
/// So an observation of one connection about its node holds for the others. A dispatcher publishes on one connection and reads the control
/// stream on another. On one node, late confirmations mean that the stream may be late too; from another node they would not.
final class CurrentNode: Sendable {
    typealias Node = RabbitMQConfiguration.Node

    /// How long a node that failed comes after the others. It may still take connections: a silent node leaves them without an answer, and
    /// one that missed the others' decisions cannot do its work.
    private static let memory = Duration.seconds(60)
    private static let mostReached = 32

    private struct State {
        var current: (node: Node, address: SocketAddress)?
        /// The nodes that were reached, by ``RabbitMQConnection/peer``.
        var reached: [String: (node: Node, address: SocketAddress)] = [:]
        var failedNodes: [Node: ContinuousClock.Instant] = [:]
        var failedAddresses: [SocketAddress: ContinuousClock.Instant] = [:]
    }

    private let state = Mutex(State())

    func connected(to node: Node, _ address: SocketAddress) {
        state.withLock { state in
            state.current = (node, address)
            // Names may lead to new addresses for as long as the process lives.
            if state.reached.count >= Self.mostReached { state.reached = [:] }
            state.reached["\(address)"] = (node, address)
        }
    }

    func prefer(peer: String) {
        state.withLock { state in
            if let node = state.reached[peer] { state.current = node }
        }
    }

    func failed(_ node: Node, _ address: SocketAddress, at now: ContinuousClock.Instant = .now) {
        state.withLock { state in
            state.failedNodes[node] = now
            state.failedAddresses[address] = now
            if state.current?.address == address { state.current = nil }
        }
    }

    /// The current node first, then those that have not failed, then the one whose failure is longest ago. Equal ones have the same order
    /// in all of a process, and another one in each process, because Swift seeds its hashes per process.
    func order(_ nodes: [Node], at now: ContinuousClock.Instant = .now) -> [Node] {
        let state = state.withLock { $0 }
        func rank(_ node: Node) -> (Int, Duration, Int) {
            (node == state.current?.node ? 0 : 1, Self.penalty(state.failedNodes[node], now), node.hashValue)
        }
        return nodes.sorted { rank($0) < rank($1) }
    }

    /// Likewise the addresses of a node. Of the others, those of the family that the resolver prefers (IPv6 or IPv4, RFC 6724) come first.
    func order(_ addresses: [SocketAddress], at now: ContinuousClock.Instant = .now) -> [SocketAddress] {
        let state = state.withLock { $0 }
        let prefersIPv6 = addresses.first?.isIPv6
        func rank(_ address: SocketAddress) -> (Int, Duration, Int, Int) {
            (
                address == state.current?.address ? 0 : 1, Self.penalty(state.failedAddresses[address], now),
                address.isIPv6 == prefersIPv6 ? 0 : 1, address.hashValue
            )
        }
        return addresses.sorted { rank($0) < rank($1) }
    }

    private static func penalty(_ failure: ContinuousClock.Instant?, _ now: ContinuousClock.Instant) -> Duration {
        failure.map { max(.zero, memory - $0.duration(to: now)) } ?? .zero
    }
}
