package import PushModel
import Synchronization

/// The holds that are in force, as this process saw them last: spares publishing what a dispatcher would only send round. That is a saving
/// and no promise: it may be a second old, and the dispatchers know for certain.
package final class HoldBook: Sendable {
    private struct Scope: Hashable {
        var app: App.ID?
        var lane: Lane?
        var notification: PushID?
    }

    private struct Contents {
        /// When each ends, UNIX milliseconds.
        var ends: [Scope: Int64] = [:]
        /// Holds that were added here, ever.
        var added = 0
    }

    private let contents = Mutex(Contents())

    package init() {}

    package var count: Int { contents.withLock { $0.ends.count } }
    package var isEmpty: Bool { contents.withLock { $0.ends.isEmpty } }

    /// - Parameter notification: nil for one that does not exist yet.
    package func holds(app: App.ID, lane: Lane, notification: PushID?, now: Int64) -> Bool {
        contents.withLock { contents in
            guard !contents.ends.isEmpty else { return false }
            let scopes = [
                Scope(), Scope(lane: lane), Scope(app: app), Scope(app: app, lane: lane), Scope(app: app, notification: notification),
            ]
            return scopes.contains { contents.ends[$0] ?? .min > now }
        }
    }

    var added: Int { contents.withLock { $0.added } }

    /// - Parameter moment: ``added`` from before these were read: where one was added meanwhile they may lack it, and the next reading counts.
    func replace(with holds: [HoldStore.Entry], since moment: Int) {
        var fresh: [Scope: Int64] = [:]
        for item in holds where item.hold.state == .live { Self.add(item.hold, app: item.app, to: &fresh) }
        contents.withLock { [fresh] contents in
            if contents.added == moment { contents.ends = fresh }
        }
    }

    func add(_ hold: Hold, app: App.ID?) {
        contents.withLock { contents in
            contents.added += 1
            Self.add(hold, app: app, to: &contents.ends)
        }
    }

    private static func add(_ hold: Hold, app: App.ID?, to ends: inout [Scope: Int64]) {
        let scope = Scope(app: app, lane: hold.scope.lane, notification: hold.scope.notification)
        ends[scope] = max(ends[scope] ?? .min, hold.endsAt ?? .max)
    }
}
