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
        /// UNIX milliseconds. Nil: until it is lifted.
        let endsAt: Int64?
        /// When this copy of it was read, by a clock that is never set.
        let readAt: Int64
    }

    /// The holds that were read, also those whose end has passed: the clock may be set back.
    private var holds: [PushID: Hold] = [:]
    /// Lifted holds, and when: one that is written again afterwards, because two processes write, is not in force again.
    private var lifted: [PushID: Int64] = [:]
    /// The holds that are in force.
    private var inForce: Set<PushID> = []
    /// The hold in force that lasts longest, for each scope. Usually empty, so that a job costs one check.
    private var longest: [Scope: Hold] = [:]
    /// The moments from `lastEnd` on and before `firstEnd` have the same holds in force.
    private var (lastEnd, firstEnd): (Int64, Int64) = (.min, .max)

    var isEmpty: Bool { longest.isEmpty }
    var count: Int { inForce.count }

    /// - Returns: whether it is in force now and was not before.
    mutating func add(_ hold: Hold, wall: Int64) -> Bool {
        guard lifted[hold.id] == nil else { return false }
        holds[hold.id] = hold
        // The next tick ends one that has ended, and tells the pools.
        guard hold.lasts > wall else {
            lastEnd = max(lastEnd, hold.lasts)
            return false
        }
        firstEnd = min(firstEnd, hold.lasts)
        guard inForce.insert(hold.id).inserted else { return false }
        chooseLongest()
        return true
    }

    /// - Returns: whether it was in force.
    mutating func lift(_ id: PushID, at moment: Int64) -> Bool {
        lifted[id] = moment
        let wasInForce = inForce.remove(id) != nil
        if let hold = holds.removeValue(forKey: id), longest[hold.scope]?.id == id { chooseLongest() }
        return wasInForce
    }

    /// - Returns: the holds whose end has passed since, and whether other holds are in force: after the clock was set back, some again.
    mutating func keepTime(wall: Int64) -> (over: [PushID], isOther: Bool) {
        guard wall < lastEnd || firstEnd <= wall else { return ([], false) }
        let before = inForce
        rebuild(wall: wall)
        return (Array(before.subtracting(inForce)), before != inForce)
    }

    /// The token service repeats every hold that is in force. A hold that it no longer repeats is over.
    /// - Returns: the holds in force that were last read before the moment.
    mutating func forget(before moment: Int64) -> [PushID] {
        lifted = lifted.filter { $0.value >= moment }
        let old = holds.values.filter { $0.readAt < moment }.map(\.id)
        guard !old.isEmpty else { return [] }
        let over = old.filter(inForce.contains)
        for id in old { holds[id] = nil }
        inForce.subtract(old)
        chooseLongest()
        return over
    }

    /// - Parameter original: See ``PushJob/original``.
    /// - Returns: the hold that keeps such a delivery longest.
    func hold(app: AppIndex, lane: Lane, notification: PushID, original: PushID? = nil) -> Hold? {
        guard !longest.isEmpty else { return nil }
        var scopes: [Scope] = [.everything, .lane(lane), .app(app), .appLane(app, lane), .notification(app, notification)]
        if let original { scopes.append(.notification(app, original)) }
        var found: Hold?
        for scope in scopes {
            guard let hold = longest[scope] else { continue }
            if let other = found, other.lasts >= hold.lasts { continue }
            found = hold
        }
        return found
    }

    private mutating func rebuild(wall: Int64) {
        inForce = Set(holds.values.lazy.filter { $0.lasts > wall }.map(\.id))
        lastEnd = holds.values.lazy.map(\.lasts).filter { $0 <= wall }.max() ?? .min
        firstEnd = holds.values.lazy.map(\.lasts).filter { $0 > wall }.min() ?? .max
        chooseLongest()
    }

    private mutating func chooseLongest() {
        longest.removeAll(keepingCapacity: true)
        for id in inForce {
            if let hold = holds[id], hold.lasts > longest[hold.scope]?.lasts ?? .min { longest[hold.scope] = hold }
        }
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
