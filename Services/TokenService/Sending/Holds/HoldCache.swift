package import PushModel
import Synchronization
package import TokenServiceApps

/// The holds that are in force, as this process read them last, so that it does not publish jobs that a dispatcher would only put back.
/// They may be a second old; the dispatchers decide.
package final class HoldCache: Sendable {
    private struct Scope: Hashable {
        var app: App.ID?
        var lane: Lane?
        var notification: PushID?
    }

    private struct Contents {
        /// When each ends, UNIX milliseconds.
        var ends: [Scope: Int64] = [:]
        /// Holds that this process has set, ever.
        var added = 0

        mutating func add(_ hold: Hold) {
            let scope = Scope(app: hold.appID, lane: hold.scope.lane, notification: hold.scope.notification)
            ends[scope] = max(ends[scope] ?? .min, hold.endsAt ?? .max)
        }
    }

    private let contents = Mutex(Contents())
    /// Where the releases of lifted holds are.
    private let places = Mutex<[PushID: HoldOutbox.Place]>([:])

    package init() {}

    package var count: Int { contents.withLock { $0.ends.count } }
    package var isEmpty: Bool { contents.withLock { $0.ends.isEmpty } }

    /// - Parameters:
    ///   - notification: nil for one that does not exist yet.
    ///   - original: See ``PushJob/original``.
    package func holds(app: App.ID, lane: Lane, notification: PushID?, original: PushID? = nil, now: Int64) -> Bool {
        contents.withLock { contents in
            guard !contents.ends.isEmpty else { return false }
            let scopes = [
                Scope(), Scope(lane: lane), Scope(app: app), Scope(app: app, lane: lane), Scope(app: app, notification: notification),
                Scope(app: app, notification: original),
            ]
            return scopes.contains { contents.ends[$0] ?? .min > now }
        }
    }

    func place(of hold: PushID) -> HoldOutbox.Place? { places.withLock { $0[hold] } }

    /// - Parameter place: nil: the release begins anew.
    func released(_ hold: PushID, to place: HoldOutbox.Place?) { places.withLock { $0[hold] = place } }

    var added: Int { contents.withLock { $0.added } }

    /// - Parameter added: ``added`` before the holds were read. If this process has set one since, they may lack it, and the next reading
    ///   counts.
    func replace(with holds: [Hold], readAfter added: Int) {
        contents.withLock { contents in
            guard contents.added == added else { return }
            contents.ends = [:]
            for hold in holds where hold.state == .live { contents.add(hold) }
        }
    }

    func add(_ hold: Hold) {
        contents.withLock { contents in
            contents.added += 1
            contents.add(hold)
        }
    }
}
