/// The times in which no push was sent although a notification waited, and the longest time without an acceptance.
struct StandstillWatch {
    /// The shortest time that counts, in microseconds.
    private static let shortest: Int64 = 1_000_000
    /// The smallest number of waiting notifications, because a single one may have its own reason.
    private static let enough = 3

    private struct Wait {
        let since: Int64
        let pushed: Int64
    }

    /// The last request to send. After it only notifications that are meant to wait are left.
    private var lastAsked: Int64 = 0
    private var lastAccepted: Int64 = 0
    private var lastPush: Int64 = 0
    private var gaps: [ClosedRange<Int64>] = []
    private var waits: [Wait] = []
    /// In microseconds.
    private(set) var longestWithoutAcceptance: Int64 = 0

    /// A request to send, in about the order of their answers.
    mutating func noteRequest(sentAt: Int64, acceptedAt: Int64?) {
        lastAsked = max(lastAsked, sentAt)
        guard let acceptedAt else { return }
        if lastAccepted > 0 { longestWithoutAcceptance = max(longestWithoutAcceptance, acceptedAt - lastAccepted) }
        lastAccepted = max(lastAccepted, acceptedAt)
    }

    /// A push, in their order.
    /// - Parameter waitingSince: From when on it could have been sent; nil where that is not known, or is not as soon as possible.
    mutating func notePush(at moment: Int64, waitingSince: Int64?) {
        if lastPush > 0, moment - lastPush > Self.shortest { gaps.append(lastPush...moment) }
        lastPush = max(lastPush, moment)
        if let waitingSince { waits.append(Wait(since: waitingSince, pushed: moment)) }
    }

    /// Each time begins when enough notifications wait and ends with the next push, while clients still send requests.
    func standstills() -> [ClosedRange<Int64>] {
        gaps.compactMap { gap in
            guard gap.upperBound <= lastAsked else { return nil }
            let waiting = waits.filter { $0.pushed >= gap.upperBound && $0.since < gap.upperBound }.map(\.since).sorted()
            guard waiting.count >= Self.enough else { return nil }
            return max(gap.lowerBound, waiting[Self.enough - 1])...gap.upperBound
        }
    }
}
