package import PushModel
package import TokenServiceApps
package import TokenServiceKit

/// A list of an app's notifications, newest first.
package struct NotificationList: Hashable, Sendable {
    package var state: NotificationState?
    /// Addressed to this user by name, or to an installation while the user was signed in there, or with a receipt of a delivery there.
    package var user: String?
    /// Accepted at that moment or later; UNIX milliseconds.
    package var since: Int64?
    /// Accepted before that moment; UNIX milliseconds.
    package var until: Int64?

    package init(state: NotificationState? = nil, user: String? = nil, since: Int64? = nil, until: Int64? = nil) {
        self.state = state
        self.user = user
        self.since = since
        self.until = until
    }

    package struct Page: Sendable {
        /// May be fewer than the limit, even none, while there is a next page.
        package var notifications: [NotificationSummary]
        /// The next page begins behind this one, which is later in the list and earlier in time. Nil on the last page.
        package var next: PushID?
    }

    package func cursor(_ last: PushID, app: App) -> String { PageCursor.encode(last.bytes, list: identity(app)) }

    package func position(_ cursor: String, app: App) throws(PageCursor.Fault) -> PushID {
        guard let id = PushID(bytes: try PageCursor.decode(cursor, list: identity(app))) else { throw .unreadable }
        return id
    }

    private func identity(_ app: App) -> [String?] {
        ["notifications", "\(app.id)", state?.rawValue, user, since.map { "\($0)" }, until.map { "\($0)" }]
    }

    /// Ids from this one on: they begin with the millisecond of acceptance.
    var lowest: PushID { Self.first(of: since ?? 0) }
    /// Ids below this one.
    var end: PushID { until.map { Self.first(of: $0) } ?? PushID(high: .max, low: .max) }

    private static func first(of milliseconds: Int64) -> PushID {
        PushID(high: UInt64(min(max(0, milliseconds), 0xffff_ffff_ffff)) << 16, low: 0)
    }
}
