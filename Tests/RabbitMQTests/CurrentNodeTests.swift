import SystemIO
import Testing

@testable import RabbitMQ

@Suite("To which node a process connects")
struct CurrentNodeTests {
    private let nodes = (1...3).map { RabbitMQConfiguration.Node(host: "rabbit-\($0)", port: 5672) }
    private let addresses: [SocketAddress]

    init() throws {
        addresses = try (1...3).flatMap { try SocketAddress.resolve(host: "127.0.0.\($0)", port: 5672) }
    }

    private func fail(_ index: Int, _ current: CurrentNode, at now: ContinuousClock.Instant) {
        current.failed(nodes[index], addresses[index], at: now)
    }

    @Test("A process tries the current node first, and the others in its own fixed order") func nodeOrder() {
        let current = CurrentNode()
        let order = current.order(nodes)
        #expect(order == current.order(nodes.reversed()) && Set(order) == Set(nodes))
        for index in nodes.indices {
            current.connected(to: nodes[index], addresses[index])
            #expect(current.order(nodes).first == nodes[index])
            #expect(current.order(addresses).first == addresses[index])
        }
    }

    @Test("A connection can be sent to the node of another one, though that was not reached last") func prefers() {
        let current = CurrentNode()
        for index in nodes.indices { current.connected(to: nodes[index], addresses[index]) }
        current.prefer(peer: "\(addresses[0])")
        #expect(current.order(nodes).first == nodes[0] && current.order(addresses).first == addresses[0])
        current.prefer(peer: "192.0.2.200:1")
        #expect(current.order(nodes).first == nodes[0])
    }

    /// With three nodes, two that fail in turn must not keep the process from the third.
    @Test("A process tries the node first whose failure is longest ago") func oldestFailure() {
        let current = CurrentNode()
        let now = ContinuousClock.now
        for (seconds, index) in [0, 1, 0, 2, 1].enumerated() {
            current.connected(to: nodes[index], addresses[index])
            fail(index, current, at: now + .seconds(seconds))
        }
        #expect(current.order(nodes, at: now + .seconds(5)) == [nodes[0], nodes[2], nodes[1]])
        #expect(current.order(addresses, at: now + .seconds(5)) == [addresses[0], addresses[2], addresses[1]])
    }

    @Test("A process forgets failures after a minute") func forgetsFailures() {
        let current = CurrentNode()
        let usual = current.order(nodes)
        let now = ContinuousClock.now
        guard let first = nodes.firstIndex(of: usual[0]) else { return }
        fail(first, current, at: now)
        #expect(current.order(nodes, at: now + .seconds(59)).last == usual[0])
        #expect(current.order(nodes, at: now + .seconds(61)) == usual)
    }
}
