import SystemIO
import Testing

@Suite("The poller and what wakes it", .timeLimit(.minutes(5)))
struct PollerTests {
    @Test("Events carry their key and are level-triggered") func levelTriggered() throws {
        let poller = try Poller()
        let (first, second) = (try WakeUp(), try WakeUp())
        try poller.add(first.descriptor, key: .max, interest: .read)
        try poller.add(second.descriptor, key: 2, interest: .read)
        #expect(try poller.wait(timeout: .zero).isEmpty)
        first.signal()
        first.signal()
        for _ in 0..<2 {
            let events = try poller.wait(timeout: nil)
            #expect(events.map(\.key) == [.max])
            #expect(events.allSatisfy { $0.isReadable && !$0.isWritable && !$0.isHangUp })
        }
        first.clear()
        #expect(try poller.wait(timeout: .zero).isEmpty, "two signals are one wake-up")
        second.signal()
        #expect(try poller.wait(timeout: nil).map(\.key) == [2])
    }

    @Test("Interest may change and end") func changedInterest() throws {
        let poller = try Poller()
        let listener = try TCPListener(host: "127.0.0.1", port: 0)
        let near = try TCPSocket.connect(to: listener.address, timeout: .seconds(5))
        try poller.add(near.descriptor, key: 1, interest: [.read, .write])
        let first = try #require(try poller.wait(timeout: .seconds(10)).first)
        #expect(first.key == 1 && first.isWritable && !first.isReadable && !first.isHangUp)
        try poller.modify(near.descriptor, key: 7, interest: .read)
        #expect(try poller.wait(timeout: .zero).isEmpty)
        let far = try #require(try listener.acceptNext())
        far.close()
        let over = try poller.wait(timeout: .seconds(10))
        #expect(over.map(\.key) == [7] && over.first?.isReadable == true)
        try poller.remove(near.descriptor)
        #expect(try poller.wait(timeout: .zero).isEmpty)
        #expect(throws: SystemError.self) { try poller.remove(near.descriptor) }
    }

    @Test("Events beyond the capacity of one wait come with the next") func overCapacity() throws {
        let poller = try Poller(capacity: 2)
        let wakeUps = try (0..<5).map { _ in try WakeUp() }
        for (index, wakeUp) in wakeUps.enumerated() {
            try poller.add(wakeUp.descriptor, key: UInt64(index), interest: .read)
            wakeUp.signal()
        }
        var keys: Set<UInt64> = []
        while keys.count < 5 {
            let events = try poller.wait(timeout: .seconds(10))
            #expect((1...2).contains(events.count))
            for event in events {
                keys.insert(event.key)
                wakeUps[Int(event.key)].clear()
            }
        }
        #expect(keys == [0, 1, 2, 3, 4])
    }

    @Test("A wait is never shorter than its timeout") func waitLength() throws {
        let poller = try Poller()
        let start = ContinuousClock.now
        #expect(try poller.wait(timeout: .microseconds(1500)).isEmpty)
        #expect(ContinuousClock.now - start >= .microseconds(1500))
    }
}
