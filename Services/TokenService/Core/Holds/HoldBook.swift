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

    /// When each ends, UNIX milliseconds.
    private let ends = Mutex<[Scope: Int64]>([:])

    package init() {}

    package var count: Int { ends.withLock { $0.count } }
    package var isEmpty: Bool { ends.withLock { $0.isEmpty } }

    /// - Parameter notification: nil for one that does not exist yet.
    package func holds(app: App.ID, lane: Lane, notification: PushID?, now: Int64) -> Bool {
        ends.withLock { ends in
            guard !ends.isEmpty else { return false }
            let scopes = [
                Scope(), Scope(lane: lane), Scope(app: app), Scope(app: app, lane: lane), Scope(app: app, notification: notification),
            ]
            return scopes.contains { ends[$0] ?? .min > now }
        }
    }

    func replace(with told: [HoldStore.Told]) {
        var fresh: [Scope: Int64] = [:]
        for item in told where item.hold.state == .live { Self.add(item.hold, app: item.app, to: &fresh) }
        ends.withLock { [fresh] ends in ends = fresh }
    }

    func add(_ hold: Hold, app: App.ID?) { ends.withLock { Self.add(hold, app: app, to: &$0) } }

    private static func add(_ hold: Hold, app: App.ID?, to ends: inout [Scope: Int64]) {
        let scope = Scope(app: app, lane: hold.scope.lane, notification: hold.scope.notification)
        ends[scope] = max(ends[scope] ?? .min, hold.endsAt ?? .max)
    }
}
