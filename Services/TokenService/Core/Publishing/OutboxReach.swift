/// How far back a relay looks in the table `outbox`, whose rows live for a moment. The dead ones stay in table and index until they are
/// vacuumed, which whoever reads the database for hours prevents: looking from the beginning each time would cost more with every one.
package struct OutboxReach: Sendable {
    /// A number is given out before its row is committed; no transaction takes that long.
    static let settling = Duration.seconds(120)
    /// From the beginning all the same, now and then: nothing that was accepted may depend on the above.
    static let whole = Duration.seconds(1800)

    /// Rows up to that number are gone.
    package private(set) var beyond: Int64 = 0
    private var candidate: (id: Int64, at: ContinuousClock.Instant)?
    private var wholeAt: ContinuousClock.Instant

    package init(now: ContinuousClock.Instant) { wholeAt = now }

    /// - Parameters:
    ///   - last: The last number that was given out.
    ///   - first: The first beyond ``beyond`` that is there.
    package mutating func measured(last: Int64, first: Int64?, at now: ContinuousClock.Instant) {
        if now - wholeAt >= Self.whole { self = OutboxReach(now: now) }
        if let candidate, now - candidate.at >= Self.settling {
            beyond = max(beyond, min(candidate.id, first.map { $0 - 1 } ?? .max))
            self.candidate = nil
        }
        if candidate == nil { candidate = (last, now) }
    }
}
