import Postgres
import Testing
import TokenService

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
        }
        #expect(written == (0..<100).filter { $0 != 7 })
        #expect(remains.waiting == [7] && remains.refused.isEmpty && remains.outage == nil)
    }

    @Test(
        "Where no item is at fault, nothing is split and everything waits",
        arguments: [error("57P01"), error("42501"), error("08006"), CancellationError()] as [any Error])
    func away(error: any Error) async {
        var transactions = 0
        let remains = await BatchSplit.write(Array(0..<100)) { _ in
            transactions += 1
            throw error
        }
        #expect(transactions == 1)
        #expect(remains.waiting == Array(0..<100) && remains.refused.isEmpty && remains.outage != nil)
    }

    @Test("What was refused as a whole is not tried as a whole again") func isRefused() async {
        var sizes: [Int] = []
        for count in [0, 1, 2, 100] {
            _ = await BatchSplit.write(Array(0..<count), isRefused: true) { part in sizes.append(part.count) }
        }
        #expect(sizes.prefix(3) == [1, 1, 1] && sizes.dropFirst(3).reduce(0, +) == 100 && !sizes.contains(100))
    }
}
