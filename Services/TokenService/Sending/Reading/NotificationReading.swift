package import Postgres
package import PushModel
package import TokenServiceApps
package import TokenServiceKit
import TokenServiceRegistry

/// The SQL that finds notifications. Every page is bounded: a filter that rarely matches makes pages short, never slow.
package struct NotificationReading {
    /// How many notifications a page reads, at most.
    package static let scannedPerPage = 5000
    /// Notifications that each way of finding a user's reads: more than any page shows.
    package static let perSource = PageQuery.maximum

    let session: PostgresSession
    let app: App

    package init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    /// Several statements: the transaction must be of isolation `.repeatableRead`.
    package func page(of list: NotificationList, from position: PushID?, limit: Int) throws -> NotificationList.Page {
        let before = min(position ?? list.end, list.end)
        guard let user = list.user else { return try scan(list, before: before, limit: limit) }
        return try page(of: user, list, before: before, limit: limit)
    }

    /// The app's notifications one after another, from the newest to the oldest.
    private func scan(_ list: NotificationList, before: PushID, limit: Int) throws -> NotificationList.Page {
        let rows = try session.execute(scan(of: list, before: before, limit: limit))
        let found = try rows.map { row in try NotificationSummary(row) }
        if try found.count == limit || rows.endBeforeLastFound { return .init(notifications: found, next: found.last?.id) }
        return .init(notifications: found, next: try session.execute(scanEnd(before: before, lowest: list.lowest)).first?["id"])
    }

    /// Joins all ways from a user to notifications, each newest first; the page is complete down to where the shortest of them ends.
    private func page(of user: String, _ list: NotificationList, before: PushID, limit: Int) throws -> NotificationList.Page {
        let lowest = list.lowest
        let answers = try session.pipeline([
            named(user, before: before, lowest: lowest), reached(user, before: before, lowest: lowest),
            listed(user, before: before, lowest: lowest),
        ])
        var ids: Set<PushID> = []
        var horizon: PushID?
        for rows in answers {
            let found: [PushID] = try rows.column("id")
            ids.formUnion(found)
            if found.count >= Self.perSource, let lowest = found.min() { horizon = max(horizon ?? lowest, lowest) }
        }
        let known = ids.filter { $0 >= horizon ?? .lowest }.sorted(by: >)
        let rows = try session.execute(summaries(of: known, state: list.state, limit: limit))
        let found = try rows.map { row in try NotificationSummary(row) }
        let next = try found.count == limit || rows.endBeforeLastFound ? found.last?.id : horizon
        return .init(notifications: found, next: next)
    }
}

extension NotificationState: PostgresEncodable, PostgresDecodable {}
extension NotificationRequest.Receipts: PostgresEncodable, PostgresDecodable {}
extension NotificationAddress.Kind: PostgresEncodable, PostgresDecodable {}

extension NotificationSummary {
    /// - Parameter row: A row of the view `notification_summaries`.
    fileprivate init(_ row: PostgresRow) throws {
        self.init(
            id: try row["id"], state: try row["state"], lane: try row["lane"], pushType: try row["push_type"],
            target: try NotificationAddress(row), receipts: try row["receipts"], acceptedAt: try row.milliseconds("accepted_at"),
            notBefore: try row.milliseconds("not_before"), localTime: try row["local_text"], expiresAt: try row.milliseconds("expires_at"),
            completedAt: try row.milliseconds("completed_at"), cancelledAt: try row.milliseconds("cancelled_at"),
            cancelReason: try row["cancel_reason"], total: try row["total"], pending: try row["pending"])
    }
}

extension NotificationAddress {
    /// - Parameter row: A row of the view `notification_records`, or `notification_summaries`.
    package init(_ row: PostgresRow) throws {
        let purpose: Purpose = try row["purpose"]
        let activity: String? = if case .activity(let id) = purpose { id } else { nil }
        if let user: String = try row["target_user"] {
            self = .user(user, activity: activity)
        } else if let installation: PushID = try row["target_installation"] {
            self = .installation(installation, activity: activity)
        } else {
            let kind: Kind? = try row["target"]
            switch kind {
            case .users: self = .users(try row["entries"])
            case .installations: self = .installations(try row["entries"])
            case .tokens: self = .tokens(try row["entries"])
            case .tags: self = .tags(try row["tags"])
            case .all: self = .all
            case .channel, .channelAndActivities:
                guard case .channel(let name) = purpose else { throw CorruptRow(table: "notifications") }
                self = .channel(name, kind == .channel ? nil : .activities)
            case .user, .installation, nil: throw CorruptRow(table: "fan_outs")
            }
        }
    }
}

/// The limits are written out in the SQL: a planner that does not know the limit prefers to sort the whole app.
extension NotificationReading {
    /// Rows are compared as a whole: with single columns the planner takes the primary key, which goes through the rows of every app. Both
    /// limits have the index's order, so that PostgreSQL stops when the page is full. In another one it sorts up to 5,000 rows first.
    func scan(of list: NotificationList, before: PushID, limit: Int) -> PostgresQuery {
        """
        SELECT * FROM (
            SELECT n.*, (sum(n.bytes) OVER (ORDER BY listed.id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))::bigint AS before,
                count(*) OVER () AS found
            FROM (
                SELECT id FROM (
                    SELECT app_id, id, state FROM notifications
                    WHERE (app_id, id) < (\(app.id), \(before)) AND (app_id, id) >= (\(app.id), \(list.lowest))
                    ORDER BY app_id DESC, id DESC LIMIT 5000
                ) AS scanned WHERE \(list.state)::text IS NULL OR state = \(list.state)
                ORDER BY app_id DESC, id DESC LIMIT \(limit)
            ) AS listed JOIN notification_summaries n ON n.id = listed.id
        ) AS measured
        WHERE coalesce(before, 0) < \(PageBytes.maximum) ORDER BY id DESC
        """
    }

    /// The last one that a scan read; no row if it came to the end.
    func scanEnd(before: PushID, lowest: PushID) -> PostgresQuery {
        """
        SELECT id FROM notifications WHERE (app_id, id) < (\(app.id), \(before)) AND (app_id, id) >= (\(app.id), \(lowest))
        ORDER BY app_id DESC, id DESC OFFSET 4999 LIMIT 1
        """
    }

    func named(_ user: String, before: PushID, lowest: PushID) -> PostgresQuery {
        """
        SELECT id FROM notifications WHERE app_id = \(app.id) AND target_user = \(user) AND id < \(before) AND id >= \(lowest)
        ORDER BY id DESC LIMIT 1000
        """
    }

    func listed(_ user: String, before: PushID, lowest: PushID) -> PostgresQuery {
        """
        SELECT notification AS id FROM targets
        WHERE app_id = \(app.id) AND owner = \(user) AND notification < \(before) AND notification >= \(lowest)
        ORDER BY notification DESC LIMIT 1000
        """
    }

    /// Finds, for each time that the user was signed in at an installation, as the registry and its history record it, the notifications
    /// with a receipt of the installation, and those addressed to it. Of a user with very many installations the first thousand count.
    func reached(_ user: String, before: PushID, lowest: PushID) -> PostgresQuery {
        """
        WITH signed_in AS MATERIALIZED (
            (SELECT id AS installation, owner_epoch FROM installations WHERE app_id = \(app.id) AND owner = \(user) ORDER BY id LIMIT 1000)
            UNION
            SELECT installation, owner_epoch FROM (
                SELECT installation, owner_epoch FROM installation_history WHERE app_id = \(app.id) AND owner = \(user)
                ORDER BY id DESC LIMIT 1000
            ) AS h WHERE owner_epoch IS NOT NULL
        )
        SELECT DISTINCT found.id FROM signed_in s
        CROSS JOIN LATERAL (
            (
                SELECT notification AS id FROM receipts
                WHERE installation = s.installation AND owner_epoch = s.owner_epoch AND notification < \(before)
                    AND notification >= \(lowest)
                ORDER BY notification DESC LIMIT 1000
            ) UNION ALL (
                SELECT id FROM notifications
                WHERE app_id = \(app.id) AND target_installation = s.installation AND target_epoch = s.owner_epoch
                    AND id < \(before) AND id >= \(lowest)
                ORDER BY id DESC LIMIT 1000
            )
        ) AS found ORDER BY found.id DESC LIMIT 1000
        """
    }

    func summaries(of notifications: [PushID], state: NotificationState?, limit: Int) -> PostgresQuery {
        """
        SELECT * FROM (
            SELECT n.*, (sum(n.bytes) OVER (ORDER BY n.id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))::bigint AS before,
                count(*) OVER () AS found
            FROM (
                SELECT n.* FROM unnest(\(notifications)::uuid[]) AS wanted (id) JOIN notification_summaries n ON n.id = wanted.id
                WHERE n.app_id = \(app.id) AND (\(state)::text IS NULL OR n.state = \(state))
                ORDER BY n.id DESC LIMIT \(limit)
            ) AS n
        ) AS measured
        WHERE coalesce(before, 0) < \(PageBytes.maximum) ORDER BY id DESC
        """
    }
}

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
