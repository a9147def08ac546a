/// Sums since the start: they survive the journal's clearing.
package struct Counters: Sendable, Equatable {
    /// An answer's status and reason.
    package struct Kind: Hashable, Sendable {
        package let status: Int
        package let reason: String?

        package init(status: Int, reason: String? = nil) {
            self.status = status
            self.reason = reason
        }

        init(_ answer: StatusAnswer) { self.init(status: answer.status, reason: answer.reason) }

        var isAccepted: Bool { (200..<300).contains(status) }
    }

    package var requests: Int64 = 0
    /// Answered 200.
    package var accepted: Int64 = 0
    /// Accepted and shown on a device.
    package var shown: Int64 = 0
    /// Every other answer.
    package var rejections: [Kind: Int64] = [:]
    /// Unanswered requests, by the scripted action.
    package var unanswered: [ScriptedAnswer.Action: Int64] = [:]
    /// Requests whose answer never left: their stream or connection was over before. Pending answers are counted nowhere.
    package var lost: Int64 = 0
    package var connectionsOpened: Int64 = 0
    package var connectionsClosed: Int64 = 0
    /// Connections that ended before HTTP/2 began: no TLS, no ALPN `h2`, not HTTP/2.
    package var handshakesFailed: Int64 = 0

    /// Requests that the journal in memory does not hold any more because others came.
    package var journalOverwritten: Int64 = 0
    /// Requests that the journal's file did not take.
    package var journalFileLost: Int64 = 0

    package var connectionsOpen: Int64 { connectionsOpened - connectionsClosed }

    mutating func note(_ step: ScriptedAnswer, isShown: Bool) {
        requests += 1
        if isShown { shown += 1 }
        if step.action != .answer {
            unanswered[step.action, default: 0] += 1
        } else if step.delay == .zero {
            count(Kind(step.answer), 1)
        }
    }

    /// - Parameter change: 1 for an answer that leaves, -1 for one that was counted and has not left.
    mutating func count(_ kind: Kind, _ change: Int64) {
        if kind.isAccepted {
            accepted += change
        } else {
            rejections[kind, default: 0] += change
            if rejections[kind] == 0 { rejections[kind] = nil }
        }
    }
}
