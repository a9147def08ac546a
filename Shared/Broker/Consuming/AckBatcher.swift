/// Turns finished deliveries into as few acknowledgements as possible. Pure bookkeeping over one connection's delivery tags, which run from
/// 1 without gaps.
///
/// `multiple` covers only the contiguous finished front. A delivery that is finished behind an unfinished one waits a little for the front
/// to reach it, and is then acknowledged singly. A tag is never answered twice: that would close the channel and redeliver everything
/// (RabbitMQ: Consumer Acknowledgements and Publisher Confirms).
struct AckBatcher {
    enum Action: Equatable {
        case acknowledge(tag: UInt64, multiple: Bool)
        case refuse(tag: UInt64, requeue: Bool)
    }

    private enum State {
        case outstanding, finished, answered
    }

    private struct Delivery {
        var state = State.outstanding
        let subscription: UInt8
    }

    /// How long a finished delivery waits for those before it.
    static let patience = Duration.milliseconds(50)

    /// Finished deliveries behind an unfinished one that are acknowledged without waiting out the patience.
    private let scatteredLimit: Int
    private var deliveries = FIFO<Delivery>()
    private var firstTag: UInt64 = 1
    /// `finished` states, all of them.
    private var finished = 0
    private var oldestScattered: ContinuousClock.Instant?
    /// Delivered and neither finished nor refused.
    private(set) var outstanding = 0
    private var outstandingOfEach: [Int]

    /// - Parameters:
    ///   - prefetch: the limit of all consumers together; if it is small, waiting would starve them.
    ///   - subscriptions: how many, at most 256.
    init(prefetch: Int, subscriptions: Int) {
        scatteredLimit = max(1, min(64, prefetch / 8))
        outstandingOfEach = Array(repeating: 0, count: subscriptions)
    }

    mutating func delivered(of subscription: Int) {
        deliveries.append(Delivery(subscription: UInt8(subscription)))
        outstanding += 1
        outstandingOfEach[subscription] += 1
    }

    func outstanding(of subscription: Int) -> Int { outstandingOfEach[subscription] }

    /// - Returns: false when it is not outstanding.
    @discardableResult
    mutating func finish(_ tag: UInt64) -> Bool {
        guard settle(tag, as: .finished) else { return false }
        finished += 1
        return true
    }

    /// Hands one delivery back, at once.
    mutating func refuse(_ tag: UInt64, requeue: Bool, into actions: inout [Action]) {
        if settle(tag, as: .answered) { actions.append(.refuse(tag: tag, requeue: requeue)) }
    }

    private mutating func settle(_ tag: UInt64, as state: State) -> Bool {
        guard tag >= firstTag, tag - firstTag < UInt64(deliveries.count) else { return false }
        let position = Int(tag - firstTag)
        guard deliveries[position].state == .outstanding else { return false }
        deliveries[position].state = state
        outstanding -= 1
        outstandingOfEach[Int(deliveries[position].subscription)] -= 1
        return true
    }

    /// The acknowledgements that are due now.
    mutating func flush(now: ContinuousClock.Instant, force: Bool = false, into actions: inout [Action]) {
        guard finished > 0 else {
            dropAnswered()
            return
        }
        acknowledgeFront(&actions)
        guard finished > 0 else {
            oldestScattered = nil
            return
        }
        let since = oldestScattered ?? now
        oldestScattered = since
        guard force || finished >= scatteredLimit || since.duration(to: now) >= Self.patience else { return }
        for position in 0..<deliveries.count where deliveries[position].state == .finished {
            actions.append(.acknowledge(tag: firstTag + UInt64(position), multiple: false))
            deliveries[position].state = .answered
        }
        finished = 0
        oldestScattered = nil
    }

    private mutating func acknowledgeFront(_ actions: inout [Action]) {
        var last: UInt64 = 0
        var count = 0
        while let state = deliveries.first?.state, state != .outstanding {
            if state == .finished {
                // The tag must be one that the broker still waits for, also with `multiple`.
                last = firstTag
                count += 1
            }
            _ = deliveries.popFirst()
            firstTag += 1
        }
        guard count > 0 else { return }
        finished -= count
        actions.append(.acknowledge(tag: last, multiple: count > 1))
    }

    private mutating func dropAnswered() {
        while deliveries.first?.state == .answered {
            _ = deliveries.popFirst()
            firstTag += 1
        }
    }

    /// Some deliveries are finished and not acknowledged yet.
    var isBehind: Bool { finished > 0 }

    /// When to call ``flush(now:force:into:)`` again if no event comes before.
    var deadline: ContinuousClock.Instant? { oldestScattered.map { $0 + Self.patience } }

    /// A new connection: deliveries of the old one cannot be answered any more.
    mutating func reset() {
        deliveries.removeAll()
        firstTag = 1
        finished = 0
        outstanding = 0
        for subscription in outstandingOfEach.indices { outstandingOfEach[subscription] = 0 }
        oldestScattered = nil
    }
}
