import Logging
import Postgres
import ServiceLifecycle
import Synchronization
import Testing
import TokenServiceKit

@Suite("A batch writer goes on until the database has each item, or has refused it", .timeLimit(.minutes(1)))
struct BatchWriterTests {
    /// A table of numbers, and the attempts to write into it.
    private final class Table: Sendable {
        struct State {
            var isAway = false
            /// SQLSTATEs of the numbers that the table does not take.
            var faults: [Int: String] = [:]
            var committed: [Int] = []
            var confirmed: [Int] = []
            var refused: [Int] = []
            var attempts: [(items: [Int], othersAreWritten: Bool)] = []
        }

        private let state = Mutex(State())
        let writer: BatchWriter<Int>

        init(maximumBatch: Int = .max, lastAttempts: Int = 2) {
            writer = BatchWriter(
                maximumBatch: maximumBatch, lastAttempts: lastAttempts, notWritten: "Numbers wait", logger: LogLines().logger)
        }

        var now: State { state.withLock { $0 } }
        func change(_ change: (inout State) -> Void) { state.withLock { change(&$0) } }

        @Sendable func attempt(_ items: [Int], _ othersAreWritten: Bool) async -> BatchSplit.Remains<Int> {
            change { $0.attempts.append((items, othersAreWritten)) }
            let remains = await BatchSplit.write(items, othersAreWritten: othersAreWritten) { part in
                try state.withLock { state in
                    if state.isAway { throw Table.error("57P01") }
                    if let fault = part.compactMap({ state.faults[$0] }).first { throw Table.error(fault) }
                    state.committed += part
                }
                change { $0.confirmed += part }
                return true
            }
            change { $0.refused += remains.refused.map(\.item) }
            return remains
        }

        private static func error(_ state: String) -> PostgresError {
            PostgresError(.sqlState(SQLState(state)), operation: "execute", message: "refused")
        }
    }

    @Test("A refused item stops no other; batches are bounded and keep their order") func refused() async {
        let table = Table(maximumBatch: 40)
        table.change { $0.faults = [7: "23514"] }
        #expect(await table.writer.write(Array(0..<100), table.attempt) == 0)
        #expect(table.now.committed == (0..<100).filter { $0 != 7 } && table.now.confirmed == table.now.committed)
        #expect(table.now.refused == [7] && table.now.attempts.map(\.items.count) == [40, 40, 20])
    }

    @Test("A locked row waits beside the others, and is written when it is free") func locked() async throws {
        let table = Table(maximumBatch: 40)
        table.change { $0.faults = [7: "55P03"] }
        async let _: Void = table.writer.tryLater(table.attempt)
        #expect(await table.writer.write(Array(0..<100), table.attempt) == 1)
        #expect(await table.writer.write(Array(100..<110), table.attempt) == 0)
        #expect(table.now.confirmed == (0..<110).filter { $0 != 7 })
        _ = try await eventually { table.now.attempts.contains { $0.items == [7] } ? true : nil }
        table.change { $0.faults = [:] }
        _ = try await eventually { table.now.confirmed.last == 7 ? true : nil }
        #expect(table.now.committed.count == 110 && table.now.refused.isEmpty)
    }

    @Test("While the database is away, the items wait in their order, and the pauses grow") func away() async throws {
        let table = Table(maximumBatch: 2)
        table.change { $0.isAway = true }
        let began = ContinuousClock.now
        async let putOff = table.writer.write([1, 2, 3, 4, 5], table.attempt)
        _ = try await eventually { table.now.attempts.count == 3 ? true : nil }
        #expect(ContinuousClock.now - began >= .milliseconds(150))
        #expect(table.now.attempts.allSatisfy { $0.items == [1, 2] } && table.now.confirmed.isEmpty)
        table.change { $0.isAway = false }
        #expect(await putOff == 0)
        #expect(table.now.confirmed == [1, 2, 3, 4, 5])
    }

    @Test("Items are not kept from the database by others that meet a fault of the program") func faults() async throws {
        let table = Table(maximumBatch: 100)
        table.change { $0.faults = Dictionary(uniqueKeysWithValues: (0..<100).map { ($0, "XX001") }) }
        #expect(await table.writer.write(Array(0..<200), table.attempt) == 100)
        #expect(table.now.confirmed == Array(100..<200) && table.now.refused.isEmpty)
    }

    @Test("An item that waits learns whether others were written since it was tried") func othersAreWritten() async throws {
        let table = Table()
        table.change { $0.faults = [1: "XX001"] }
        async let _: Void = table.writer.tryLater(table.attempt)
        #expect(await table.writer.write([1], table.attempt) == 1)
        _ = try await eventually { table.now.attempts.count == 3 ? true : nil }
        #expect(table.now.attempts.allSatisfy { !$0.othersAreWritten } && table.now.refused.isEmpty)
        _ = try await eventually {
            table.writer.noteWritten()
            return table.now.refused == [1] ? true : nil
        }
    }

    private struct Writing: Service {
        let table: Table

        func run() async throws {
            async let _: Void = table.writer.tryLater(table.attempt)
            await table.writer.write([1, 2, 3], table.attempt)
        }
    }

    @Test("A shutdown does not wait for the database; what it takes at the last attempt is written", arguments: [true, false])
    func shutdown(comesBack: Bool) async throws {
        let table = Table(lastAttempts: 2)
        table.change { $0.isAway = true }
        let group = ServiceGroup(
            configuration: .init(
                services: [.init(service: Writing(table: table), successTerminationBehavior: .gracefullyShutdownGroup)],
                logger: LogLines().logger))
        async let running: Void = group.run()
        _ = try await eventually { table.now.attempts.isEmpty ? nil : true }
        await group.triggerGracefulShutdown()
        try await running
        #expect(table.now.confirmed.isEmpty)
        table.change {
            $0.isAway = !comesBack
            $0.faults = [2: "55P03"]
        }
        let left = await table.writer.writeLast(table.attempt)
        #expect(left == (comesBack ? [2] : [1, 2, 3]) && table.now.confirmed == (comesBack ? [1, 3] : []))
    }
}
