import Postgres
import Testing
import TokenServiceKit

@Suite("A batch that the database refuses is split until the items at fault are alone")
struct BatchSplitTests {
    private static func error(_ state: String) -> PostgresError {
        PostgresError(.sqlState(SQLState(state)), operation: "execute", message: "refused")
    }

    @Test(
        "All others are written once, in their order, whichever items are at fault",
        arguments: [[0], [999], [500], [0, 1, 2], [3, 400, 999], Array(0..<40)] as [[Int]])
    func others(bad: [Int]) async {
        var written: [Int] = []
        var transactions = 0
        let remains = await BatchSplit.write(Array(0..<1000)) { part in
            transactions += 1
            if part.contains(where: bad.contains) { throw Self.error("22021") }
            written += part
            return true
        }
        #expect(written == (0..<1000).filter { !bad.contains($0) })
        #expect(remains.refused.map(\.item) == bad)
        #expect(remains.waiting.isEmpty && remains.outage == nil)
        #expect(transactions <= 1 + 48 * bad.count)
    }

    @Test("What takes too long alone waits, and is not refused", arguments: ["57014", "55P03", "40P01", "53200"])
    func tooMuch(state: String) async {
        var written: [Int] = []
        let remains = await BatchSplit.write(Array(0..<100)) { part in
            if part.count > 10 || part.contains(7) { throw Self.error(state) }
            written += part
            return true
        }
        #expect(written == (0..<100).filter { $0 != 7 })
        #expect(remains.waiting == [7] && remains.refused.isEmpty && remains.outage == nil)
    }

    @Test("Locked rows keep the rest for five seconds at most; the rest has its turn before them next time") func locked() async {
        var time = ContinuousClock.now
        var (written, transactions): ([Int], Int) = ([], 0)
        func write(_ items: [Int], locked: Range<Int>) async -> BatchSplit.Remains<Int> {
            transactions = 0
            return await BatchSplit.write(items, now: { time }) { part in
                transactions += 1
                if part.contains(where: locked.contains) {
                    time += .milliseconds(1500)
                    throw Self.error("55P03")
                }
                written += part
                return true
            }
        }
        let all = await write(Array(0..<2000), locked: 0..<2000)
        #expect(transactions == 4)
        #expect(all.waiting.sorted() == Array(0..<2000) && all.refused.isEmpty && all.outage == nil)
        let first = await write(Array(0..<1000), locked: 0..<1)
        #expect(written.isEmpty && first.waiting == Array(1..<1000) + [0])
        let second = await write(first.waiting, locked: 0..<1)
        #expect(written == Array(1..<1000) && second.waiting == [0])
    }

    @Test(
        "Where no item is at fault, nothing is split and everything waits",
        arguments: [error("57P01"), error("08006"), CancellationError()] as [any Error])
    func away(error: any Error) async {
        var transactions = 0
        let remains = await BatchSplit.write(Array(0..<100)) { _ in
            transactions += 1
            throw error
        }
        #expect(transactions == 1)
        #expect(remains.waiting == Array(0..<100) && remains.refused.isEmpty && remains.outage != nil)
    }

    private static let faults = [
        error("42501"), error("XX001"), PostgresError(.decoding, operation: "decode", message: "another shape"),
    ]

    @Test("A fault of the program that concerns one item refuses that one alone", arguments: faults) func oneFault(error: PostgresError)
        async
    {
        var written: [Int] = []
        let remains = await BatchSplit.write(Array(0..<100)) { part in
            if part.contains(7) || part.contains(0) { throw error }
            written += part
            return true
        }
        #expect(written == (0..<100).filter { $0 != 7 && $0 != 0 })
        #expect(remains.refused.map(\.item) == [0, 7] && remains.waiting.isEmpty && remains.outage == nil)
    }

    @Test("A fault of the program that concerns every item refuses none", arguments: faults) func everybodysFault(error: PostgresError)
        async
    {
        var transactions = 0
        let remains = await BatchSplit.write(Array(0..<1000)) { _ in
            transactions += 1
            throw error
        }
        #expect(transactions < 100)
        #expect(remains.waiting.sorted() == Array(0..<1000) && remains.refused.isEmpty && remains.outage != nil)
    }

    @Test("Nor does one of which transactions that write nothing of it know nothing, or that concerns most items", arguments: faults)
    func mostFaults(error: PostgresError) async {
        let idle = await BatchSplit.write(Array(0..<100)) { part in
            if part.contains(where: { $0 % 2 == 0 }) { throw error }
            return false
        }
        #expect(idle.waiting.sorted() == (0..<100).filter { $0 % 2 == 0 } && idle.refused.isEmpty)
        let most = await BatchSplit.write(Array(0..<30)) { part in
            if part.contains(where: { $0 > 5 }) { throw error }
            return true
        }
        #expect(most.waiting.sorted() == Array(6..<30) && most.refused.isEmpty)
    }

    @Test("A single item with a fault of the program waits until others are written", arguments: faults) func lonelyFault(
        error: PostgresError
    ) async {
        let first = await BatchSplit.write([1]) { _ in throw error }
        #expect(first.waiting == [1] && first.refused.isEmpty)
        let second = await BatchSplit.write([1], othersAreWritten: true) { _ in throw error }
        #expect(second.waiting.isEmpty && second.refused.map(\.item) == [1])
    }

    @Test("What was refused as a whole is not tried as a whole again") func isRefused() async {
        var sizes: [Int] = []
        for count in [0, 1, 2, 100] {
            _ = await BatchSplit.write(Array(0..<count), isRefused: true) { part in
                sizes.append(part.count)
                return true
            }
        }
        #expect(sizes.prefix(3) == [1, 1, 1] && sizes.dropFirst(3).reduce(0, +) == 100 && !sizes.contains(100))
    }
}
