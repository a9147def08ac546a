import Postgres

/// What is left of a batch. A part that the database refuses is split, until the item at fault is alone; everything else is written.
///
/// Items keep their order. Sixteen parts: each level may cost a lock timeout, and three levels reach one of 4,096 items.
package struct BatchSplit {
    private static let ways = 16

    /// The next one last.
    private var parts: [Range<Int>]

    /// - Parameter isRefused: All of it at once was refused before.
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
    /// What was not written.
    package struct Remains<Item> {
        /// Refused because of what they hold, each alone.
        package var refused: [(item: Item, error: any Error)] = []
        /// To be tried again later.
        package var waiting: [Item] = []
        /// Why nothing more was tried: no item's fault.
        package var absence: (any Error)?

        package init() {}
    }

    /// Writes items in as few transactions as the database allows. An item that alone takes too long, such as one with a locked row, waits;
    /// the others do not wait for it.
    /// - Parameter isRefused: All of them at once were refused before.
    package static func write<Item>(
        _ items: [Item], isRefused: Bool = false, _ transaction: ([Item]) async throws -> Void
    ) async -> Remains<Item> {
        var (split, remains) = (BatchSplit(items.count, isRefused: isRefused), Remains<Item>())
        while let part = split.next() {
            guard remains.absence == nil else {
                remains.waiting += items[part]
                continue
            }
            do {
                try await transaction(part.count == items.count ? items : Array(items[part]))
            } catch {
                switch Refusal(error) {
                case .absence:
                    remains.absence = error
                    remains.waiting += items[part]
                case .values where !split.split(part): remains.refused.append((items[part.lowerBound], error))
                case .size where !split.split(part): remains.waiting.append(items[part.lowerBound])
                case .values, .size: break
                }
            }
        }
        return remains
    }
}

/// Why a transaction of many items failed, and so what helps.
package enum Refusal: Equatable, Sendable {
    /// What an item holds: it alone, and never as it is.
    case values
    /// How much it was, or whom it met: fewer at once, or later.
    case size
    /// The database is away, or ours is the fault, or the task was cancelled: all of it later, as it is.
    case absence

    package init(_ error: any Error) {
        self =
            switch error {
            case let error as PostgresError: error.isOfSize ? .size : error.isOfValues ? .values : .absence
            case is CancellationError: .absence
            default: .values
            }
    }
}

extension PostgresSession {
    /// How long callers wait for a batch of which something is refused: then the rest is refused too, and its callers come again.
    private static var patience: Duration { .seconds(5) }

    /// One answer per item, in their order. What the database refuses of one, or what one has to wait for too long, does not fail the others.
    /// - Parameter transaction: One answer per item of the part.
    func inParts<Item, Answer>(
        _ items: [Item], _ transaction: ([Item]) throws -> [Result<Answer, any Error>]
    ) -> [Result<Answer, any Error>] {
        let end = ContinuousClock.now + Self.patience
        var results: [Result<Answer, any Error>] = []
        results.reserveCapacity(items.count)
        var split = BatchSplit(items.count)
        var absence: (any Error)?
        while let part = split.next() {
            if let absence {
                results += items[part].map { _ in .failure(absence) }
                continue
            }
            do {
                results += try transaction(part.count == items.count ? items : Array(items[part]))
            } catch {
                let refusal = Refusal(error)
                let isOver = refusal == .absence || refusal == .size && ContinuousClock.now > end
                if isOver { absence = error }
                if isOver || !split.split(part) { results += items[part].map { _ in .failure(error) } }
            }
        }
        return results
    }
}
