import SystemIO

/// The pool's clocks; a test replaces them.
package struct APNsClock: Sendable {
    /// The clock for ages, deadlines and timers: never set back.
    package let now: @Sendable () -> ContinuousClock.Instant
    /// UNIX milliseconds: for expiry, `iat` and times that others read.
    package let wall: @Sendable () -> Int64

    package init(now: @escaping @Sendable () -> ContinuousClock.Instant, wall: @escaping @Sendable () -> Int64) {
        self.now = now
        self.wall = wall
    }

    package static let system = APNsClock(now: { ContinuousClock.now }, wall: { WallClock.milliseconds() })
}
