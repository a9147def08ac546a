import Foundation
import Synchronization
import SystemIO
import Testing

@Suite("Threads, mailboxes and executors", .timeLimit(.minutes(5)))
struct ThreadTests {
    @Test("A thread has its name and can be joined") func namedThread() throws {
        let name = Mutex("")
        let thread = try SystemThread.start(name: "apns-production-long-name") {
            let text = try? String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8)
            name.withLock { $0 = text ?? "unreadable" }
        }
        thread.join()
        thread.join()
        #expect(name.withLock { $0 } == "apns-production\n", "the kernel keeps fifteen bytes")
    }

    @Test("If the system refuses a thread, the error says what to do") func refusedThread() throws {
        // No process has so much address space for a stack. pthread_create returns EAGAIN, as it does at a limit on threads.
        let hasRun = Atomic(false)
        let error = #expect(throws: SystemError.self) {
            try SystemThread.start(name: "refused", stackBytes: 1 << 60) { hasRun.store(true, ordering: .relaxed) }
        }
        #expect(error?.operation == "pthread_create" && error?.code == EAGAIN)
        #expect(error?.description.contains("TasksMax") == true)
        let ranRefused = hasRun.load(ordering: .relaxed)
        #expect(!ranRefused)
        try SystemThread.start(name: "next") { hasRun.store(true, ordering: .relaxed) }.join()
        let ranNext = hasRun.load(ordering: .relaxed)
        #expect(ranNext, "the next one starts")
    }

    @Test("Several threads may wait for one") func severalJoins() throws {
        let gate = try WakeUp()
        let finished = Mutex(false)
        let worker = try SystemThread.start(name: "worker") {
            gate.await()
            finished.withLock { $0 = true }
        }
        let seen = Mutex(0)
        let waiters = try (0..<4).map { _ in
            try SystemThread.start(name: "waiter") {
                worker.join()
                if finished.withLock({ $0 }) { seen.withLock { $0 += 1 } }
            }
        }
        gate.signal()
        waiters.forEach { $0.join() }
        #expect(seen.withLock { $0 } == 4)
    }

    @Test("A task that prefers an event loop runs there") func loopPreference() async throws {
        let wakeUp = try WakeUp()
        let loop = Mailbox<@Sendable () -> Void>(wakeUp: wakeUp)
        let isOver = Atomic(false)
        let thread = try SystemThread.start(name: "the-loop") {
            while !isOver.load(ordering: .acquiring) {
                wakeUp.await()
                wakeUp.clear()
                loop.takeAll().forEach { $0() }
            }
        }
        @concurrent func threadName() async throws -> String { try String(contentsOfFile: "/proc/thread-self/comm", encoding: .utf8) }
        let names = try await withTaskExecutorPreference(EventLoopExecutor { loop.post($0) }) {
            let first = try await threadName()
            // The task waits for another task in between.
            let other = try await Task.detached { try await threadName() }.value
            return [first, other, try await threadName()]
        }
        #expect(names[0] == "the-loop\n" && names[2] == "the-loop\n" && names[1] != "the-loop\n")
        isOver.store(true, ordering: .releasing)
        wakeUp.signal()
        thread.join()
    }

    @Test("Threads never get the same random number twice") func uniqueRandom() throws {
        let numbers = Mutex<[UInt64]>([])
        let threads = try (0..<4).map { _ in
            try SystemThread.start(name: "random") {
                let random = PooledRandom()
                let own = (0..<10_000).map { _ in random.next() }
                numbers.withLock { $0 += own }
            }
        }
        threads.forEach { $0.join() }
        #expect(Set(numbers.withLock { $0 }).count == 40_000)
    }

    @Test("A mailbox wakes its reader only if it was empty") func wakesOnce() {
        let wakes = Atomic(0)
        let box = Mailbox<Int> { wakes.add(1, ordering: .relaxed) }
        #expect(box.post(1) && box.post(2) && box.post(contentsOf: [3, 4]))
        #expect(wakes.load(ordering: .relaxed) == 1 && box.count == 4)
        #expect(box.takeAll() == [1, 2, 3, 4])
        #expect(box.takeAll().isEmpty)
        box.post(contentsOf: [])
        #expect(wakes.load(ordering: .relaxed) == 1, "nothing is no reason to wake")
        box.post(5)
        #expect(wakes.load(ordering: .relaxed) == 2)
        var reused = [9, 9, 9]
        box.takeAll(into: &reused)
        #expect(reused == [5] && box.count == 0)
    }

    @Test("A closed mailbox refuses messages, and closing returns the rest") func closedMailbox() {
        let box = Mailbox<Int> {}
        box.post(contentsOf: [1, 2])
        #expect(box.close() == [1, 2])
        #expect(box.close().isEmpty)
        #expect(!box.post(3) && !box.post(contentsOf: [4]))
        #expect(box.takeAll().isEmpty && box.count == 0)
    }

    @Test("Many writers lose nothing, and each keeps its order") func manyWriters() throws {
        let wakeUp = try WakeUp()
        let box = Mailbox<(writer: Int, number: Int)>(wakeUp: wakeUp)
        let writers = try (0..<4).map { writer in
            try SystemThread.start(name: "writer") {
                for number in 0..<5_000 { box.post((writer, number)) }
            }
        }
        var next = [0, 0, 0, 0]
        var inOrder = true
        while next.reduce(0, +) < 20_000 {
            wakeUp.await()
            // Clear before taking the messages. A message that is posted in between then wakes the reader once more and is never missed.
            wakeUp.clear()
            for (writer, number) in box.takeAll() {
                inOrder = inOrder && next[writer] == number
                next[writer] = number + 1
            }
        }
        writers.forEach { $0.join() }
        #expect(inOrder && next == [5_000, 5_000, 5_000, 5_000] && box.count == 0)
    }

    @Test("A mailbox that closes delivers or returns every accepted message") func closingRace() throws {
        for _ in 0..<50 {
            let box = Mailbox<Int> {}
            let accepted = Atomic(0)
            let writer = try SystemThread.start(name: "writer") {
                for number in 0..<200 where box.post(number) { accepted.add(1, ordering: .relaxed) }
            }
            var got = box.takeAll().count
            got += box.close().count
            writer.join()
            #expect(got == accepted.load(ordering: .relaxed))
        }
    }

    @Test("An actor may block on its own executor without blocking others") func blockingActor() async throws {
        // More actors wait at once than the cooperative pool has threads. On that pool no task could release them.
        let gate = try WakeUp()
        let count = ProcessInfo.processInfo.activeProcessorCount * 2 + 2
        let arrived = Mailbox<Int>(wakeUp: try WakeUp())
        let blockers = (0..<count).map { _ in Blocker() }
        async let last: Void = {
            while arrived.count < count { await Task.yield() }
            gate.signal()
        }()
        await withTaskGroup(of: Void.self) { group in
            for (index, blocker) in blockers.enumerated() {
                group.addTask { await blocker.block(on: gate, arrived, index) }
            }
        }
        await last
        #expect(arrived.takeAll().sorted() == Array(0..<count))
    }

    @Test("The clock returns UNIX time in milliseconds") func unixTime() {
        let before = Int64(Date().timeIntervalSince1970 * 1000)
        let now = WallClock.milliseconds()
        #expect(now >= before - 1 && now - before < 60_000)
    }
}

private actor Blocker {
    private let executor = BlockingExecutor(label: "test.blocker")
    nonisolated var unownedExecutor: UnownedSerialExecutor { executor.asUnownedSerialExecutor() }

    func block(on gate: WakeUp, _ arrived: Mailbox<Int>, _ index: Int) {
        arrived.post(index)
        gate.await()
    }
}

extension WakeUp {
    /// Blocks this thread until the signal comes, and keeps the signal.
    func await() {
        guard let poller = try? Poller(), (try? poller.add(descriptor, key: 0, interest: .read)) != nil else { return }
        _ = try? poller.wait(timeout: nil)
    }
}
