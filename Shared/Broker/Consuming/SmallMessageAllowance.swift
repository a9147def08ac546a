/// Decides for one subscription when more may be unsettled than its prefetch, because messages are small: then the prefetch is used up long
/// before it costs memory worth speaking of, and what limits is the way to the broker and back. Pure; the loop begins and ends a second
/// consumer as it says.
struct SmallMessageAllowance {
    enum Change: Equatable {
        case begin
        case end
    }

    /// Mean bytes of the last messages up to which it begins, and above which it ends.
    static let small = 1024
    static let large = 2048
    /// So many messages make the mean.
    private static let memory = 16

    private let prefetch: Int
    /// Whether there is such an allowance at all.
    private let isWanted: Bool
    private(set) var isTaken = false
    /// Sum over `memory` messages of mean size; begins large, so that some small ones must come first.
    private var weight = large * memory

    init(prefetch: UInt16, more: UInt16) {
        self.prefetch = Int(prefetch)
        isWanted = more > 0
    }

    mutating func received(_ bytes: Int) {
        weight += bytes - weight / Self.memory
    }

    /// - Parameter unsettled: messages, of all subscriptions: where nothing is left to do, the next may be of another kind.
    /// - Returns: what is to be done now; the caller does it.
    mutating func change(unsettled: Int) -> Change? {
        guard isWanted else { return nil }
        let mean = weight / Self.memory
        if isTaken, unsettled == 0 || mean > Self.large {
            isTaken = false
            return .end
        }
        if !isTaken, unsettled >= prefetch, mean <= Self.small {
            isTaken = true
            return .begin
        }
        return nil
    }

    /// The connection is gone, and every consumer with it.
    mutating func reset() {
        isTaken = false
        weight = Self.large * Self.memory
    }
}
