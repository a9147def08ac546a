package import Postgres
package import PushModel
package import TokenServiceApps
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
    /// - Parameter row: Of the view `notification_summaries`.
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
    /// - Parameter row: Of the view `notification_records`, or `notification_summaries`.
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
