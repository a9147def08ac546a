package import Postgres
import PushModel

/// The SQL that finds notifications. Every page is bounded: what a rare filter passes over makes pages short, never slow.
package struct NotificationReading {
    /// How many notifications a page looks at, at most.
    package static let scannedPerPage = 5000
    /// Of a user's, how many are looked at by each way of finding them: more than any page shows.
    package static let perSource = PageQuery.maximum
    /// Lists that name one user; beyond that the index that knows them is no help, because it knows no order.
    package static let maximumListed = 5000

    private let session: PostgresSession
    let app: App

    package init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    /// Several statements: the transaction must be of isolation `.repeatableRead`.
    package func page(
        of list: NotificationList, from position: NotificationList.Position?, limit: Int
    ) throws -> NotificationList.Page {
        let before = min(position?.before ?? list.end, list.end)
        guard let user = list.user else { return try scan(list, before: before, limit: limit) }
        if position?.isScan != true, let page = try page(of: user, list, before: before, limit: limit, isScan: false) { return page }
        return try page(of: user, list, before: before, limit: limit, isScan: true) ?? .init(notifications: [], next: nil)
    }

    /// The app's notifications one after another, from the newest to the oldest.
    private func scan(_ list: NotificationList, before: PushID, limit: Int) throws -> NotificationList.Page {
        let answers = try session.pipeline([
            scan(of: list, before: before, limit: limit), scanEnd(before: before, lowest: list.lowest),
        ])
        let found = try answers[0].map { row in try NotificationSummary(row) }
        let end: PushID? = try found.count == limit ? found.last?.id : answers[1].first?["id"]
        return .init(notifications: found, next: end.map { .init(before: $0) })
    }

    /// By the ways that lead from a user to notifications, each newest first; complete down to where the shortest of them ends.
    /// - Parameter isScan: Look at lists one after another instead of asking their index.
    /// - Returns: nil where too many lists name the user for their index.
    private func page(
        of user: String, _ list: NotificationList, before: PushID, limit: Int, isScan: Bool
    ) throws -> NotificationList.Page? {
        let lowest = list.lowest
        let answers = try session.pipeline([
            named(user, before: before, lowest: lowest), reached(user, before: before, lowest: lowest),
            isScan ? listedScanned(user, before: before, lowest: lowest) : listed(user, before: before, lowest: lowest),
            scanEnd(before: before, lowest: lowest),
        ])
        guard isScan || answers[2].count <= Self.maximumListed else { return nil }
        var ids: Set<PushID> = []
        // Of a scan, where it ended; of the index all lists are known.
        var horizon: PushID? = try isScan ? answers[3].first?["id"] : nil
        for (source, rows) in answers[0..<3].enumerated() {
            let found = (try rows.column("id") as [PushID?]).compactMap { $0 }
            ids.formUnion(found)
            if source < 2, found.count >= Self.perSource, let lowest = found.min() { horizon = max(horizon ?? lowest, lowest) }
        }
        let known = ids.filter { $0 >= horizon ?? .lowest }.sorted(by: >)
        let found = try session.execute(summaries(of: known, state: list.state, limit: limit)).map { row in try NotificationSummary(row) }
        let next = found.count == limit ? found.last?.id : horizon
        return .init(notifications: found, next: next.map { .init(before: $0, isScan: isScan) })
    }
}

extension NotificationState: PostgresEncodable, PostgresDecodable {}
extension NotificationRequest.Receipts: PostgresEncodable, PostgresDecodable {}

extension NotificationSummary {
    /// - Parameter row: Of `notifications`, with the local time's text as `local_text` and what ``NotificationAddress/init(_:)`` needs.
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
    /// - Parameter row: Of `notifications`, with the lengths of lists as `users`, `installations` and `tokens`.
    init(_ row: PostgresRow) throws {
        if let user: String = try row["target_user"] {
            self = .user(user)
        } else if let installation: PushID = try row["target_installation"] {
            self = .installation(installation)
        } else if let users: Int = try row["users"] {
            self = .users(users)
        } else if let installations: Int = try row["installations"] {
            self = .installations(installations)
        } else if let tokens: Int = try row["tokens"] {
            self = .tokens(tokens)
        } else if let tags: String = try row["target_tags"] {
            self = .tags(tags)
        } else {
            self = .all
        }
    }
}
