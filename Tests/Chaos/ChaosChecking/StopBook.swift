import ChaosLedger
import PushModel

/// Cancellations and holds.
struct StopBook {
    struct Stop {
        let request: Int64
        let sentAt: Int64
        /// From then on nothing may be sent; nil if it is not certain that it was carried out.
        let effectiveAt: Int64?
    }

    struct Hold {
        let request: Int64
        let app: Int?
        let lane: Lane?
        let notification: PushID?
        let sentAt: Int64
        let effectiveAt: Int64?
        /// When a client asked to lift it, or when it ended by itself.
        var liftedAt: Int64
    }

    /// With few held jobs, as in a run, they are back in half a minute (`HoldPace`). This is twice that.
    static let wayBack: Int64 = 60_000_000
    private(set) var cancels: [PushID: [Stop]] = [:]
    private(set) var holds: [Hold] = []
    private var placeOfHold: [PushID: Int] = [:]

    mutating func note(_ record: ClientRecord, names: Names, run: RunRecord, faults: FaultTimeline) {
        let isDone = (200..<300).contains(record.status ?? 0)
        guard isDone || record.status == nil || record.status ?? 0 >= 500 else { return }
        let answeredAt = record.answeredAt ?? record.sentAt
        let effectiveAt = faults.effect(of: record.fence, at: answeredAt) + run.grace
        switch record.kind {
        case .cancel:
            guard let id = record.notification else { return }
            // Without a fence there was nothing left to cancel, as the answer said.
            let isCancelled = isDone && record.fence != ClientRecord.Fence.none
            cancels[id, default: []].append(Stop(request: record.id, sentAt: record.sentAt, effectiveAt: isCancelled ? effectiveAt : nil))
        case .hold:
            if let id = record.hold { placeOfHold[id] = holds.count }
            // A hold that may be in force and whose id no client knows cannot be judged.
            holds.append(
                Hold(
                    request: record.id, app: names.app(record.app), lane: record.lane, notification: record.notification,
                    sentAt: record.sentAt, effectiveAt: isDone && record.hold != nil ? effectiveAt : nil,
                    liftedAt: record.expiresAt ?? .max))
        case .lift:
            guard let place = record.hold.flatMap({ placeOfHold[$0] }) else { return }
            holds[place].liftedAt = min(holds[place].liftedAt, record.sentAt)
        default: break
        }
    }

    /// Whether a hold may have kept something of that kind waiting in the range.
    func mayBeHeld(_ send: SendBook.Send, _ notification: PushID, in range: ClosedRange<Int64>) -> Bool {
        holds.contains { hold in
            hold.sentAt <= range.upperBound && range.lowerBound - Self.wayBack <= hold.liftedAt && mayKeep(hold, send, notification)
        }
    }

    /// Whether a client may have cancelled it.
    func mayBeCancelled(_ notification: PushID) -> Bool { cancels[notification] != nil }

    /// Whether a hold may ever have stopped something of that kind.
    /// - Parameter moment: Only one that may stop it at that moment still, or from which it may be on its way back.
    func mayBeHeld(_ send: SendBook.Send, _ notification: PushID, at moment: Int64? = nil) -> Bool {
        holds.contains { hold in
            if let moment, hold.liftedAt < moment - Self.wayBack { return false }
            return mayKeep(hold, send, notification)
        }
    }

    private func mayKeep(_ hold: Hold, _ send: SendBook.Send, _ notification: PushID) -> Bool {
        matches(hold, send, notification)
            || send.lane == nil && hold.notification == nil && (hold.app == nil || hold.app == send.app)
    }

    /// Certain matches only: the lane of a notification without a named lane is unknown.
    func matches(_ hold: Hold, _ send: SendBook.Send, _ notification: PushID) -> Bool {
        (hold.app == nil || hold.app == send.app) && (hold.notification == nil || hold.notification == notification)
            && (hold.lane == nil || hold.lane == send.lane)
    }
}
