import APNs

/// How many jobs of `bulk` are worked on at once: as many as are settled without waiting for one another. A pure value.
///
/// A job needs its time, from the broker's delivery to the confirmation of its outcomes. With more jobs at work more get done, until something is
/// used up: this machine's processors, the broker, the database behind it. From there on each one only makes the others wait, and the lane `now` with
/// them: twenty times as many jobs of `bulk` were a third more pushes, and twice the time of `now`.
struct BulkPace {
    /// A job that takes longer waits for something of its own, such as its app's pool, and keeps nobody else from anything. Milliseconds.
    private static let patience: Int64 = 250
    /// So many one after another, and it is not one app's pool that is slow.
    private static let tellingRow = 8

    /// Tests/Benchmarks/README.md has what more and less would give.
    private static let rules = BulkWindow.Rules(least: 2, tolerance: 160, slack: 0)

    private var window = BulkWindow(rules)
    /// Since when, UNIX milliseconds, by their numbers.
    private var begun: [UInt64: Int64] = [:]
    /// The same of those that take no room any more.
    private var slow: [UInt64: Int64] = [:]
    /// Settled, with none among them that was in time.
    private var slowInARow = 0
    private var last: Int64 = 0

    /// How many more may be begun now.
    var room: Int { window.room }
    /// How many may be at work together.
    var limit: Int { window.limit }

    mutating func begin(_ job: UInt64, at now: Int64) {
        doubtClock(now)
        guard begun.updateValue(now, forKey: job) == nil else { return }
        window.sent()
    }

    /// Everything that it owed is confirmed.
    mutating func settled(_ job: UInt64, at now: Int64) {
        doubtClock(now)
        if let since = begun.removeValue(forKey: job) {
            slowInARow = 0
            window.ended()
            window.answered(sentAt: since * 1000, now: now * 1000)
        } else if let since = slow.removeValue(forKey: job) {
            slowInARow += 1
            if slowInARow > Self.tellingRow { window.answered(sentAt: since * 1000, now: now * 1000) }
        }
    }

    mutating func forgetSlow(at now: Int64) {
        doubtClock(now)
        for (job, since) in begun where now - since > Self.patience {
            begun[job] = nil
            slow[job] = since
            window.ended()
        }
    }

    /// The broker delivers them anew.
    mutating func forgetAll() {
        for _ in begun { window.ended() }
        begun.removeAll()
        slow.removeAll()
    }

    /// Where it was set back, what was measured lies in the future, and nothing would be learned until then.
    private mutating func doubtClock(_ now: Int64) {
        if now < last { self = BulkPace() }
        last = now
    }
}
