/// How many pushes a device takes in a time; further ones are answered `TooManyRequests`.
package struct Throttle: Sendable, Equatable {
    package internal(set) var pushes: Int64
    package let milliseconds: Int64
    private var windowStart: Int64?
    private var used: Int64 = 0

    package init(pushes: Int64, per duration: Duration) {
        self.init(pushes: pushes, milliseconds: duration / .milliseconds(1) < 1 ? 1 : Int64(duration / .milliseconds(1)))
    }

    init(pushes: Int64, milliseconds: Int64) {
        self.pushes = pushes
        self.milliseconds = milliseconds
    }

    /// Counts a push. The window begins with the first push after the one before has ended.
    mutating func admits(_ now: Int64) -> Bool {
        if windowStart.map({ now - $0 >= milliseconds }) ?? true { (windowStart, used) = (now, 0) }
        used += 1
        return used <= pushes
    }

    /// How many more it admits now.
    func left(_ now: Int64) -> Int64 {
        if windowStart.map({ now - $0 >= milliseconds }) ?? true { return pushes }
        return max(0, pushes - used)
    }
}
