import PushModel

/// The holds that are in force, by the control stream. Pure; the core's thread owns it.
struct HoldBook: Sendable {
    typealias AppIndex = ControlState.AppIndex

    /// ``HoldScope``, with apps as their numbers: small and cheap to look up.
    enum Scope: Hashable, Sendable {
        case everything
        case lane(Lane)
        case app(AppIndex)
        case appLane(AppIndex, Lane)
        case notification(AppIndex, PushID)
    }

    struct Hold: Equatable, Sendable {
        let id: PushID
        let scope: Scope
        /// UNIX milliseconds, as is `writtenAt`. Nil: until it is lifted.
        let endsAt: Int64?
        let writtenAt: Int64
    }

    private var holds: [PushID: Hold] = [:]
    /// Lifted holds, and when: one that is written again afterwards, because two processes write, is not in force again.
    private var lifted: [PushID: Int64] = [:]
    /// For each scope the hold that lasts longest. Usually empty, so that a job costs one check.
    private var longest: [Scope: Hold] = [:]
    private var firstEnd: Int64 = .max

    var isEmpty: Bool { longest.isEmpty }
    var count: Int { holds.count }

    /// - Returns: whether it was not in force yet.
    mutating func add(_ hold: Hold, at now: Int64) -> Bool {
        guard lifted[hold.id] == nil, hold.endsAt ?? .max > now else { return false }
        let known = holds[hold.id]
        if let known, known.writtenAt >= hold.writtenAt { return false }
        holds[hold.id] = hold
        rebuild()
        return known == nil
    }

    /// - Returns: whether it was in force.
    mutating func lift(_ id: PushID, at moment: Int64) -> Bool {
        lifted[id] = max(moment, lifted[id] ?? .min)
        guard holds.removeValue(forKey: id) != nil else { return false }
        rebuild()
        return true
    }

    /// - Returns: the holds whose time is over by now.
    mutating func end(at now: Int64) -> [PushID] {
        guard firstEnd <= now else { return [] }
        return remove { $0.endsAt ?? .max <= now }
    }

    /// The token service repeats every hold that is in force. A hold that it no longer repeats is over.
    /// - Parameter moment: UNIX milliseconds.
    /// - Returns: the holds that were last written before it.
    mutating func forget(before moment: Int64) -> [PushID] {
        lifted = lifted.filter { $0.value >= moment }
        return remove { $0.writtenAt < moment }
    }

    /// - Returns: the hold that keeps such a delivery longest.
    func hold(app: AppIndex, lane: Lane, notification: PushID) -> Hold? {
        guard !longest.isEmpty else { return nil }
        var found: Hold?
        for scope in [.everything, .lane(lane), .app(app), .appLane(app, lane), .notification(app, notification)] as [Scope] {
            guard let hold = longest[scope] else { continue }
            if let other = found, other.lasts >= hold.lasts { continue }
            found = hold
        }
        return found
    }

    private mutating func remove(where isOver: (Hold) -> Bool) -> [PushID] {
        let over = holds.values.filter(isOver).map(\.id)
        guard !over.isEmpty else { return [] }
        for id in over { holds[id] = nil }
        rebuild()
        return over
    }

    private mutating func rebuild() {
        longest.removeAll(keepingCapacity: true)
        for hold in holds.values where hold.lasts > longest[hold.scope]?.lasts ?? .min { longest[hold.scope] = hold }
        firstEnd = holds.values.map(\.lasts).min() ?? .max
    }
}

extension HoldBook.Hold {
    fileprivate var lasts: Int64 { endsAt ?? .max }

    /// The scope that it holds, for receipts and metrics.
    var reason: String {
        switch scope {
        case .everything: OwnReason.everythingHeld
        case .lane, .appLane: OwnReason.laneHeld
        case .app: OwnReason.appHeld
        case .notification: OwnReason.notificationHeld
        }
    }
}
