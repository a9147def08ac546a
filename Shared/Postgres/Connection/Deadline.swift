/// The latest moment at which an operation ends, with or without an answer of the server.
struct Deadline: Comparable, Sendable {
    let instant: ContinuousClock.Instant

    static func after(_ duration: Duration) -> Deadline { Deadline(instant: .now + duration) }
    static func < (left: Deadline, right: Deadline) -> Bool { left.instant < right.instant }

    var remaining: Duration { max(.zero, instant - .now) }
    var isPast: Bool { instant <= .now }
    /// For `poll`: rounded up, so that it does not spin through the last millisecond; 0 once past.
    var pollMilliseconds: Int32 { Int32(clamping: remaining.milliseconds(rounding: .up)) }
}

extension Duration {
    func milliseconds(rounding rule: FloatingPointRoundingRule) -> Int {
        Int((self / .milliseconds(1)).rounded(rule))
    }
}
