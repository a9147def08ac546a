/// How long outcomes wait for others that could share their transaction. A pure value.
///
/// A transaction's own work, with its dozen statements and its flush, costs as much as hundreds of deliveries, and acceptances need the
/// same processors and the same disk.
struct OutcomePace: Sendable {
    /// The time between the beginnings of two transactions that have room left.
    static let interval = Duration.milliseconds(25)

    /// Half of the deliveries and messages that a transaction, or the broker's prefetch, has room for: enough not to wait.
    let deliveries: Int
    let messages: Int
    private var last: ContinuousClock.Instant?

    init(deliveries: Int, messages: Int) {
        self.deliveries = deliveries
        self.messages = messages
    }

    mutating func begin(at now: ContinuousClock.Instant) { last = now }

    func pays(deliveries: Int, messages: Int) -> Bool { deliveries >= self.deliveries || messages >= self.messages }

    /// How long a batch that does not pay yet waits. A lone outcome does not wait.
    func wait(at now: ContinuousClock.Instant) -> Duration {
        guard let last else { return .zero }
        return max(.zero, last + Self.interval - now)
    }
}
