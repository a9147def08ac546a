package import Postgres
import PushModel

/// Reads the table `installation_history`, and the state that explains it.
package struct InstallationHistory {
    private let session: PostgresSession
    private let app: App

    package init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    package struct Page: Sendable {
        package var entries: [HistoryEntry]
        /// The number of the last entry, where more may follow.
        package var next: Int64?
        package var reachability: Reachability
    }

    /// In one round trip.
    /// - Parameter position: The last entry that was shown.
    /// - Returns: nil where neither the installation nor any history of it exists.
    package func page(of list: HistoryList, from position: Int64?, limit: Int) throws -> Page? {
        let named: [PostgresValue] = [.int64(app.id), .id(list.installation)]
        let place: [PostgresValue] =
            switch list.order {
            case .newestFirst: [.int64(position ?? .max), .int64(Int64(limit))]
            case .oldestFirst: [.int64(position ?? .min), .int64(Int64(limit))]
            }
        let results = try session.pipeline([
            (Self.state, named), (Self.tokens, named), (Self.recent, named),
            (list.order == .newestFirst ? Self.newestFirst : Self.oldestFirst, named + place),
        ])
        let state = try results[0].first.map { row in try Self.state(row, tokens: results[1].map(Self.token)) }
        let recent = try results[2].map { row in try Self.entry(row, of: list.installation, app: app) }
        guard state != nil || !recent.isEmpty else { return nil }
        let rows = results[3]
        return Page(
            entries: try rows.map { row in try Self.entry(row, of: list.installation, app: app) },
            next: try rows.count == limit ? rows.last?.int64(0) : nil,
            reachability: Reachability(state, recent: recent))
    }

    private static func state(_ row: PostgresRow, tokens: [ReachabilityState.Token]) throws -> ReachabilityState {
        ReachabilityState(
            isSignedIn: try row.bool(0), signedOutReason: try row.optionalText(1),
            deregisteredAt: try row.optionalTimestampMilliseconds(2), throttledUntil: try row.optionalTimestampMilliseconds(3),
            staleSince: try row.optionalTimestampMilliseconds(4), registeredAt: try row.timestampMilliseconds(5), tokens: tokens)
    }

    /// Columns: those of the statement `tokens`.
    static func token(_ row: PostgresRow) throws -> ReachabilityState.Token {
        let retiredAt = try row.optionalTimestampMilliseconds(5)
        return ReachabilityState.Token(
            id: try row.int64(0), hint: DeviceToken(bytes: try row.bytes(1))?.hint ?? "", environment: try row.text(2),
            purpose: try row.text(3), registeredAt: try row.timestampMilliseconds(4),
            retired: try retiredAt.map {
                .init(at: $0, reason: try row.optionalText(6) ?? "", quarantinedAt: try row.optionalTimestampMilliseconds(7))
            })
    }

    /// Columns: those of the statements that read the history.
    static func entry(_ row: PostgresRow, of installation: PushID, app: App) throws -> HistoryEntry {
        guard let event = HistoryEntry.Event(rawValue: try row.text(2)) else { throw CorruptRow(table: "installation_history") }
        var entry = HistoryEntry(app: app.id, installation: installation, event: event, at: try row.timestampMilliseconds(1))
        entry.ownerEpoch = try row.optionalInt64(3)
        entry.owner = try row.optionalText(4)
        if let hint = try row.optionalText(6) {
            entry.token = .init(
                id: try row.optionalInt64(5), hint: hint, environment: try row.optionalText(7) ?? "",
                purpose: try row.optionalText(8) ?? "")
        }
        entry.otherInstallation = try row.optionalID(9)
        entry.status = try row.optionalInt32(10)
        entry.reason = try row.optionalText(11)
        entry.apnsTimestamp = try row.optionalTimestampMilliseconds(12)
        entry.delivery = try row.optionalID(13)
        return entry
    }
}

extension InstallationHistory {
    private static let state: PostgresStatement = """
        SELECT owner IS NOT NULL, signed_out_reason, deregistered_at, CASE WHEN throttled_until > now() THEN throttled_until END,
            stale_since, registered_at
        FROM installations WHERE app_id = $1 AND id = $2
        """
    private static let tokens: PostgresStatement = """
        SELECT id, token, environment, purpose, registered_at, retired_at, retired_reason, quarantined_at
        FROM tokens WHERE app_id = $1 AND installation = $2
        """
    /// What explains the state, whichever page is shown.
    private static let recent: PostgresStatement = """
        SELECT id, at, event, owner_epoch, owner, token_id, token_hint, environment, purpose, other_installation, status, reason,
            apns_timestamp, delivery
        FROM installation_history WHERE app_id = $1 AND installation = $2 ORDER BY id DESC LIMIT 100
        """
    private static let newestFirst: PostgresStatement = """
        SELECT id, at, event, owner_epoch, owner, token_id, token_hint, environment, purpose, other_installation, status, reason,
            apns_timestamp, delivery
        FROM installation_history WHERE app_id = $1 AND installation = $2 AND id < $3 ORDER BY id DESC LIMIT $4
        """
    private static let oldestFirst: PostgresStatement = """
        SELECT id, at, event, owner_epoch, owner, token_id, token_hint, environment, purpose, other_installation, status, reason,
            apns_timestamp, delivery
        FROM installation_history WHERE app_id = $1 AND installation = $2 AND id > $3 ORDER BY id LIMIT $4
        """
}
