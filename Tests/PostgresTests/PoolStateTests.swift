import Testing

@testable import Postgres

@Suite("Callers that wait for a connection wait in queues that take turns")
struct PoolStateTests {
    private final class Slot {}
    private typealias State = PoolState<Slot, String>

    /// Whose only connection is lent. The name of a caller begins with that of its queue.
    private struct Pool {
        var state = State(size: 1)
        private var holder = "first"

        init() { _ = state.take(in: "first") }

        /// The callers that get the connection, which each gives back, until none waits.
        mutating func served(atMost count: Int = .max) -> [String] {
            let slot = Slot()
            var callers: [String] = []
            while callers.count < count, case .resume(let caller) = state.give(slot, from: holder, isConnected: true) {
                callers.append(caller)
                holder = String(caller.prefix { $0 != " " })
            }
            return callers
        }
    }

    @Test("However many callers wait in one queue, the first one of another waits for one connection of it") func manyInOneQueue() {
        var pool = Pool()
        for number in 1...100 { _ = pool.state.enqueue("shop \(number)", in: "shop") }
        #expect(pool.served(atMost: 7) == (1...7).map { "shop \($0)" })
        _ = pool.state.enqueue("blog", in: "blog")
        _ = pool.state.enqueue("news", in: "news")
        #expect(pool.served(atMost: 4) == ["shop 8", "blog", "news", "shop 9"])
        #expect(pool.state.waitingCount == 91)
    }

    @Test("Callers of one queue keep the order of their arrival") func orderOfArrival() {
        var pool = Pool()
        for number in 1...4 {
            for queue in ["shop", "blog", "news"] { _ = pool.state.enqueue("\(queue) \(number)", in: queue) }
        }
        let served = pool.served()
        #expect(served.count == 12 && pool.state.waitingCount == 0)
        for queue in ["shop", "blog", "news"] {
            #expect(served.filter { $0.hasPrefix(queue) } == (1...4).map { "\(queue) \($0)" })
        }
    }

    @Test("A caller that no longer waits is passed over, and the others keep their order") func withdrawnCaller() {
        var pool = Pool()
        let ids = (1...3).map { pool.state.enqueue("shop \($0)", in: "shop") }
        _ = pool.state.enqueue("blog", in: "blog")
        #expect(pool.state.withdraw(ids[1], from: "blog") == nil)
        #expect(pool.state.withdraw(ids[1], from: "shop") == "shop 2")
        #expect(pool.state.withdraw(ids[1], from: "shop") == nil)
        #expect(pool.state.waitingCount == 3)
        #expect(pool.served() == ["shop 1", "blog", "shop 3"])
        #expect(pool.state.withdraw(ids[0], from: "shop") == nil)
    }

    @Test("A queue in which no caller waits has no turn, and a new one when a caller comes", arguments: [true, false])
    func emptyQueue(isServed: Bool) {
        var pool = Pool()
        let id = pool.state.enqueue("blog 1", in: "blog")
        for number in 1...3 { _ = pool.state.enqueue("shop \(number)", in: "shop") }
        if isServed {
            #expect(pool.served(atMost: 1) == ["blog 1"])
        } else {
            #expect(pool.state.withdraw(id, from: "blog") == "blog 1")
        }
        #expect(pool.served(atMost: 1) == ["shop 1"])
        for number in 2...3 { _ = pool.state.enqueue("blog \(number)", in: "blog") }
        #expect(pool.served() == ["shop 2", "blog 2", "shop 3", "blog 3"])
    }

    /// Of four connections, of which the callers of one queue hold three, and one of another queue the last.
    private static func lentToShop() -> State {
        var state = State(size: 4)
        for queue in ["shop", "shop", "shop", "news"] { _ = state.take(in: queue) }
        return state
    }

    /// The callers that get the connections that these queues' callers give back.
    private static func served(_ state: inout State, from queues: [String]) -> [String?] {
        queues.map { queue in if case .resume(let caller) = state.give(Slot(), from: queue, isConnected: true) { caller } else { nil } }
    }

    @Test("A queue whose callers hold half of the connections is passed over while another one waits") func halfOfThePool() {
        var state = Self.lentToShop()
        for queue in ["shop", "blog"] {
            for number in 1...4 { _ = state.enqueue("\(queue) \(number)", in: queue) }
        }
        let served = Self.served(&state, from: ["shop", "shop", "news", "blog", "shop", "blog"])
        #expect(served == ["blog 1", "shop 1", "blog 2", "blog 3", "shop 2", "blog 4"])
        // Only one queue waits.
        #expect(Self.served(&state, from: ["blog"]) == ["shop 3"])
        // A connection counts for the queue that has it now.
        for queue in ["shop", "blog"] { _ = state.enqueue(queue, in: queue) }
        #expect(Self.served(&state, from: ["shop", "shop", "shop"]) == ["blog", "shop 4", "shop"])
        #expect(state.waitingCount == 0)
    }

    @Test("While no other queue waits, one has all connections but the last", arguments: [4, 8]) func lastOfThePool(size: Int) {
        var state = State(size: size)
        func isServed(_ queue: String) -> Bool {
            switch state.take(in: queue) {
            case .use, .create: true
            case .wait, .refuse: false
            }
        }
        for _ in 1..<size { #expect(isServed("shop")) }
        #expect(!isServed("shop"))
        _ = state.enqueue("shop", in: "shop")
        // Nobody waits for what another queue has.
        #expect(!state.isContended)
        // The other queue's callers come one after the other, and wait for none of this one's.
        for _ in 1...3 {
            #expect(isServed("blog"))
            #expect(!isServed("news"))
            #expect(Self.served(&state, from: ["blog"]) == [nil])
        }
        #expect(Self.served(&state, from: ["shop"]) == ["shop"])
        #expect(state.waitingCount == 0 && state.busyCount == size - 1)
        #expect(isServed("blog"))
        for queue in ["shop", "news"] { _ = state.enqueue(queue, in: queue) }
        #expect(state.isContended)
    }

    @Test("What waits in no named queue, the service's own work, may have all connections") func ownWork() {
        var state = State(size: 4)
        for _ in 1...4 { _ = state.take(in: "") }
        #expect(state.busyCount == 4)
    }

    @Test("Of fewer than four connections a queue has all", arguments: 1...3) func smallPool(size: Int) {
        var state = State(size: size)
        for _ in 1...size { _ = state.take(in: "shop") }
        #expect(state.busyCount == size)
    }

    @Test("Closing refuses the callers of all queues") func closedPool() {
        var pool = Pool()
        for queue in ["shop", "blog", "shop"] { _ = pool.state.enqueue(queue, in: queue) }
        #expect(pool.state.close().waiters.sorted() == ["blog", "shop", "shop"])
        #expect(pool.state.waitingCount == 0)
        guard case .close = pool.state.give(Slot(), from: "first", isConnected: true) else {
            Issue.record("the slot is used again")
            return
        }
        #expect(pool.state.isDrained)
    }
}
