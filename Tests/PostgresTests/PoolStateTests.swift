import Testing

@testable import Postgres

@Suite("Callers that wait for a connection wait in queues that take turns")
struct PoolStateTests {
    private final class Slot {}
    private typealias State = PoolState<Slot, String>

    /// Of a pool whose only connection is lent.
    private static func lent() -> State {
        var state = State(size: 1)
        _ = state.take()
        return state
    }

    /// The callers that get the connection, which each gives back, until none waits.
    private static func served(_ state: inout State, atMost count: Int = .max) -> [String] {
        let slot = Slot()
        var callers: [String] = []
        while callers.count < count, case .resume(let caller) = state.give(slot, isConnected: true) { callers.append(caller) }
        return callers
    }

    @Test("However many callers wait in one queue, the first one of another waits for one connection of it") func manyInOneQueue() {
        var state = Self.lent()
        for number in 1...100 { _ = state.enqueue("shop \(number)", in: "shop") }
        #expect(Self.served(&state, atMost: 7) == (1...7).map { "shop \($0)" })
        _ = state.enqueue("blog", in: "blog")
        _ = state.enqueue("news", in: "news")
        #expect(Self.served(&state, atMost: 4) == ["shop 8", "blog", "news", "shop 9"])
        #expect(state.waitingCount == 91)
    }

    @Test("Callers of one queue keep the order of their arrival") func orderOfArrival() {
        var state = Self.lent()
        for number in 1...4 {
            for queue in ["shop", "blog", "news"] { _ = state.enqueue("\(queue) \(number)", in: queue) }
        }
        let served = Self.served(&state)
        #expect(served.count == 12 && state.waitingCount == 0)
        for queue in ["shop", "blog", "news"] {
            #expect(served.filter { $0.hasPrefix(queue) } == (1...4).map { "\(queue) \($0)" })
        }
    }

    @Test("A caller that no longer waits is passed over, and the others keep their order") func withdrawnCaller() {
        var state = Self.lent()
        let ids = (1...3).map { state.enqueue("shop \($0)", in: "shop") }
        _ = state.enqueue("blog", in: "blog")
        #expect(state.withdraw(ids[1], from: "blog") == nil)
        #expect(state.withdraw(ids[1], from: "shop") == "shop 2")
        #expect(state.withdraw(ids[1], from: "shop") == nil)
        #expect(state.waitingCount == 3)
        #expect(Self.served(&state) == ["shop 1", "blog", "shop 3"])
        #expect(state.withdraw(ids[0], from: "shop") == nil)
    }

    @Test("A queue in which no caller waits has no turn, and a new one when a caller comes", arguments: [true, false])
    func emptyQueue(isServed: Bool) {
        var state = Self.lent()
        let id = state.enqueue("blog 1", in: "blog")
        for number in 1...3 { _ = state.enqueue("shop \(number)", in: "shop") }
        if isServed {
            #expect(Self.served(&state, atMost: 1) == ["blog 1"])
        } else {
            #expect(state.withdraw(id, from: "blog") == "blog 1")
        }
        #expect(Self.served(&state, atMost: 1) == ["shop 1"])
        for number in 2...3 { _ = state.enqueue("blog \(number)", in: "blog") }
        #expect(Self.served(&state) == ["shop 2", "blog 2", "shop 3", "blog 3"])
    }

    @Test("Closing refuses the callers of all queues") func closedPool() {
        var state = Self.lent()
        for queue in ["shop", "blog", "shop"] { _ = state.enqueue(queue, in: queue) }
        #expect(state.close().waiters.sorted() == ["blog", "shop", "shop"])
        #expect(state.waitingCount == 0)
        guard case .close = state.give(Slot(), isConnected: true) else {
            Issue.record("the slot is used again")
            return
        }
        #expect(state.isDrained)
    }
}
