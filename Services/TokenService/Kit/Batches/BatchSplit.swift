package import Postgres

/// The parts of a batch that are still to be written. If the database refuses a part, it is split until the item at fault is alone; all
/// other items are written.
///
/// Items keep their order. Sixteen parts: each level may cost a lock timeout, and three levels reach one of 4,096 items.
package struct BatchSplit {
    private static let ways = 16

    /// The next one last.
    private var parts: [Range<Int>]

    /// - Parameter isRefused: The database has refused the whole batch.
    package init(_ count: Int, isRefused: Bool = false) {
        parts = count > 0 ? [0..<count] : []
        if isRefused, count > 1, let whole = next() { _ = split(whole) }
    }

    package mutating func next() -> Range<Int>? { parts.popLast() }

    /// - Returns: false where the part is one item alone.
    package mutating func split(_ part: Range<Int>) -> Bool {
        guard part.count > 1 else { return false }
        let size = (part.count + Self.ways - 1) / Self.ways
        parts += stride(from: part.lowerBound, to: part.upperBound, by: size).reversed().map { $0..<min($0 + size, part.upperBound) }
        return true
    }
}

extension BatchSplit {
    /// The items that were not written.
    package struct Remains<Item> {
        /// Refused, each alone, because of its values.
        package var refused: [(item: Item, error: any Error)] = []
        /// The items to try again later, in this order.
        package var waiting: [Item] = []
        /// Why the rest was not tried: no item's fault.
        package var outage: (any Error)?
        /// Why a transaction failed last.
        package var failure: (any Error)?

        package init(waiting: [Item] = [], outage: (any Error)? = nil) {
            self.waiting = waiting
            self.outage = outage
        }
    }

    /// Items that fail alone by a fault of the program before the rest is left: no item's fault, then.
    package static var maximumFaults: Int { 64 }
    /// So many may be refused if others are written, but none beside them.
    private static var lonelyFaults: Int { 3 }
    /// How long parts are split that take too long.
    private static var patience: Duration { .seconds(5) }

    /// Writes items in as few transactions as the database allows. An item that alone takes too long, for example because its row is
    /// locked, is put off. Where many do, the callers of all others would wait for each one's timeout: after ``patience`` the rest is put
    /// off as well, in front of what was tried, so that it has its turn next time. Items that alone meet a fault of the program are refused
    /// if at least as many others are written, and are put off if not: then the fault may concern every item.
    /// - Parameters:
    ///   - isRefused: The database has refused the whole batch.
    ///   - othersAreWritten: Since these items were last tried.
    ///   - now: The clock.
    ///   - transaction: Returns whether it has written rows that a fault concerning every item would have refused.
    package static func write<Item>(
        _ items: [Item], isRefused: Bool = false, othersAreWritten: Bool = false, now: () -> ContinuousClock.Instant = { .now },
        _ transaction: ([Item]) async throws -> Bool
    ) async -> Remains<Item> {
        var (split, remains) = (BatchSplit(items.count, isRefused: isRefused), Remains<Item>())
        let end = now() + patience
        var (untried, isLate): ([Item], Bool) = ([], false)
        var (faults, written): ([(item: Item, error: any Error)], Int) = ([], othersAreWritten ? lonelyFaults : 0)
        while let part = split.next() {
            guard remains.outage == nil else {
                remains.waiting += items[part]
                continue
            }
            guard !isLate else {
                untried += items[part]
                continue
            }
            do {
                if try await transaction(part.count == items.count ? items : Array(items[part])) { written += part.count }
            } catch {
                remains.failure = error
                switch Refusal(error) {
                case .fault where part.count == 1:
                    faults.append((items[part.lowerBound], error))
                    if faults.count >= written + maximumFaults { remains.outage = error }
                case .outage:
                    remains.outage = error
                    remains.waiting += items[part]
                case .values where !split.split(part): remains.refused.append((items[part.lowerBound], error))
                case .values: break
                case .size:
                    isLate = now() > end
                    if isLate || !split.split(part) { remains.waiting += items[part] }
                case .fault: _ = split.split(part)
                }
            }
        }
        remains.waiting = untried + remains.waiting
        if faults.count <= written { remains.refused += faults } else { remains.waiting = faults.map(\.item) + remains.waiting }
        return remains
    }
}

/// Why a transaction of many items failed.
package enum Refusal: Equatable, Sendable {
    /// The values of an item: the database never takes that item as it is.
    case values
    /// Too many items at once, or a locked row: fewer succeed, or all do later.
    case size
    /// The program, the schema or a damaged page is at fault: of one row, or of all.
    case fault
    /// The database is not available, the task was cancelled, or another process has the lease: the same items succeed later.
    case outage

    package init(_ error: any Error) {
        self =
            switch error {
            case let error as PostgresError: error.isOfSize ? .size : error.isOfValues ? .values : error.isOfProgram ? .fault : .outage
            case is CancellationError, is LeaseLost: .outage
            default: .values
            }
    }
}

extension PostgresSession {
    /// How long callers wait while parts are split. Then the rest fails too, and its callers try again.
    private static var splittingTimeout: Duration { .seconds(5) }

    /// One answer per item, in their order. If the database refuses one item, or one takes too long, the others do not fail.
    /// - Parameter transaction: One answer per item of the part.
    package func inParts<Item, Answer>(
        _ items: [Item], _ transaction: ([Item]) throws -> [Result<Answer, any Error>]
    ) -> [Result<Answer, any Error>] {
        let end = ContinuousClock.now + Self.splittingTimeout
        var results: [Result<Answer, any Error>] = []
        results.reserveCapacity(items.count)
        var split = BatchSplit(items.count)
        var outage: (any Error)?
        while let part = split.next() {
            if let outage {
                results += items[part].map { _ in .failure(outage) }
                continue
            }
            do {
                results += try transaction(part.count == items.count ? items : Array(items[part]))
            } catch {
                let refusal = Refusal(error)
                let isOver = refusal == .outage || refusal != .values && ContinuousClock.now > end
                if isOver { outage = error }
                if isOver || !split.split(part) { results += items[part].map { _ in .failure(error) } }
            }
        }
        return results
    }
}
