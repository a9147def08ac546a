package import Postgres
import PushModel

/// The SQL that finds notifications. Every page is bounded: what a rare filter passes over makes pages short, never slow.
package struct NotificationReading {
    /// How many notifications a page looks at, at most.
    package static let walkedPerPage = 5000
    /// Of a user's, how many are looked at by each way of finding them: more than any page shows.
    package static let perSource = PageQuery.maximum
    /// Lists that name one user; beyond that the index that knows them is no help, because it knows no order.
    package static let maximumListed = 5000

    private let session: PostgresSession
    private let app: App

    package init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    /// Several statements: the transaction must be of isolation `.repeatableRead`.
    package func page(
        of list: NotificationList, from position: NotificationList.Position?, limit: Int
    ) throws -> NotificationList.Page {
        let before = min(position?.before ?? list.end, list.end)
        guard let user = list.user else { return try walk(list, before: before, limit: limit) }
        if position?.isWalk != true, let page = try page(of: user, list, before: before, limit: limit, isWalk: false) { return page }
        return try page(of: user, list, before: before, limit: limit, isWalk: true) ?? .init(notifications: [], next: nil)
    }

    /// The app's notifications one after another, from the newest to the oldest.
    private func walk(_ list: NotificationList, before: PushID, limit: Int) throws -> NotificationList.Page {
        let place: [PostgresValue] = [.int64(app.id), .id(before), .id(list.lowest)]
        let answers = try session.pipeline([
            (Self.walk, place + [.optionalText(list.state?.rawValue), .int64(Int64(limit))]), (Self.horizon, place),
        ])
        let found = try answers[0].map { row in try Self.summary(row) }
        let end = try found.count == limit ? found.last?.id : answers[1].first?.id(0)
        return .init(notifications: found, next: end.map { .init(before: $0) })
    }

    /// By the ways that lead from a user to notifications, each newest first; complete down to where the shortest of them ends.
    /// - Parameter isWalk: Look at lists one after another instead of asking their index.
    /// - Returns: nil where too many lists name the user for their index.
    private func page(
        of user: String, _ list: NotificationList, before: PushID, limit: Int, isWalk: Bool
    ) throws -> NotificationList.Page? {
        let place: [PostgresValue] = [.int64(app.id), .text(user), .id(before), .id(list.lowest)]
        let lists = isWalk ? Self.inListsWalked : Self.inLists
        let answers = try session.pipeline([
            (Self.ofUser, place), (Self.byReceipts, place), (lists, place),
            (Self.horizon, [.int64(app.id), .id(before), .id(list.lowest)]),
        ])
        guard isWalk || answers[2].count <= Self.maximumListed else { return nil }
        var ids: Set<PushID> = []
        // Of a walk, where it ended; of the index all lists are known.
        var horizon = try isWalk ? answers[3].first?.id(0) : nil
        for (source, rows) in answers[0..<3].enumerated() {
            let found = try rows.compactMap { row in try row.optionalID(0) }
            ids.formUnion(found)
            if source < 2, found.count >= Self.perSource, let lowest = found.min() { horizon = max(horizon ?? lowest, lowest) }
        }
        let known = ids.filter { $0 >= horizon ?? .lowest }.sorted(by: >)
        let rows = try session.execute(
            Self.named, [.int64(app.id), .ids(known), .optionalText(list.state?.rawValue), .int64(Int64(limit))])
        let found = try rows.map { row in try Self.summary(row) }
        let next = found.count == limit ? found.last?.id : horizon
        return .init(notifications: found, next: next.map { .init(before: $0, isWalk: isWalk) })
    }

    /// Columns: those of the statements.
    private static func summary(_ row: PostgresRow) throws -> NotificationSummary {
        guard let state = NotificationState(rawValue: try row.text(1)), let lane = Lane(rawValue: try row.text(2)),
            let type = PushType(rawValue: try row.text(3)), let receipts = NotificationRequest.Receipts(rawValue: try row.text(4)),
            let target = try NotificationAddress(row, from: 14)
        else { throw CorruptRow(table: "notifications") }
        return NotificationSummary(
            id: try row.id(0), state: state, lane: lane, pushType: type, target: target, receipts: receipts,
            acceptedAt: try row.timestampMilliseconds(5), notBefore: try row.optionalTimestampMilliseconds(6),
            localTime: try row.optionalText(7), expiresAt: try row.timestampMilliseconds(8),
            completedAt: try row.optionalTimestampMilliseconds(9), cancelledAt: try row.optionalTimestampMilliseconds(10),
            cancelReason: try row.optionalText(11), total: Int(try row.int32(12)), pending: Int(try row.int32(13)))
    }
}

extension NotificationAddress {
    /// Columns: user, installation, how many users, installations and tokens, tags, whether all.
    init?(_ row: PostgresRow, from column: Int) throws {
        if let user = try row.optionalText(column) {
            self = .user(user)
        } else if let installation = try row.optionalID(column + 1) {
            self = .installation(installation)
        } else if let users = try row.optionalInt32(column + 2) {
            self = .users(Int(users))
        } else if let installations = try row.optionalInt32(column + 3) {
            self = .installations(Int(installations))
        } else if let tokens = try row.optionalInt32(column + 4) {
            self = .tokens(Int(tokens))
        } else if let tags = try row.optionalText(column + 5) {
            self = .tags(tags)
        } else if try row.bool(column + 6) {
            self = .all
        } else {
            return nil
        }
    }
}
