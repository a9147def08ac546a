package import Postgres
import PushModel

/// The SQL that reads receipts.
package struct DeliveryReading {
    /// Receipts that a page looks at, at most.
    package static let walkedPerPage = 5000

    private let session: PostgresSession
    private let app: App

    package init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    /// In one round trip.
    /// - Returns: nil where the app has no such notification.
    package func page(of list: DeliveryList, from position: Int64?, limit: Int) throws -> DeliveryList.Page? {
        let filter: [PostgresValue] = [.optionalText(list.state?.text), .optionalText(list.reason)]
        let place: [PostgresValue] = [.id(list.notification), .int64(position ?? .min)]
        var commands: [(PostgresStatement, [PostgresValue])] = [(Self.notification, [.int64(app.id), .id(list.notification)])]
        if let installation = list.installation {
            commands.append((Self.ofInstallation, place + filter + [.int64(Int64(limit)), .id(installation)]))
        } else {
            commands.append((Self.walk, place + filter + [.int64(Int64(limit))]))
            commands.append((Self.horizon, place))
        }
        let answers = try session.pipeline(commands)
        guard let row = answers[0].first else { return nil }
        guard let receipts = NotificationRequest.Receipts(rawValue: try row.text(0)) else { throw CorruptRow(table: "notifications") }
        let rows = answers[1]
        var end = try rows.count == limit ? rows.last?.int64(15) : nil
        if end == nil, answers.count > 2 { end = try answers[2].first?.int64(0) }
        return DeliveryList.Page(receipts: receipts, deliveries: try rows.map { try NotificationStatus.delivery($0) }, next: end)
    }

    private static let notification: PostgresStatement = "SELECT receipts FROM notifications WHERE app_id = $1 AND id = $2"

    /// `$1` notification, `$2` after this token, `$3` state, `$4` reason, `$5` limit.
    private static let walk: PostgresStatement = """
        SELECT d.id, d.installation, t.token, d.environment, d.class, d.status, d.reason, d.attempts,
            d.last_class, d.last_status, d.last_reason, d.last_at, d.retry_at, d.updated_at, t.purpose, d.token_id
        FROM (
            SELECT * FROM deliveries WHERE notification = $1 AND token_id > $2 ORDER BY token_id LIMIT 5000
        ) AS d LEFT JOIN tokens t ON t.id = d.token_id
        WHERE ($3::text IS NULL OR coalesce(d.class, 'pending') = $3) AND ($4::text IS NULL OR d.reason = $4)
        ORDER BY d.token_id LIMIT $5
        """
    /// The last one that a walk looked at; no row where it came to the end.
    private static let horizon: PostgresStatement =
        "SELECT token_id FROM deliveries WHERE notification = $1 AND token_id > $2 ORDER BY token_id OFFSET 4999 LIMIT 1"

    private static let ofInstallation: PostgresStatement = """
        SELECT d.id, d.installation, t.token, d.environment, d.class, d.status, d.reason, d.attempts,
            d.last_class, d.last_status, d.last_reason, d.last_at, d.retry_at, d.updated_at, t.purpose, d.token_id
        FROM (SELECT * FROM deliveries WHERE installation = $6 AND notification = $1 OFFSET 0) AS d LEFT JOIN tokens t ON t.id = d.token_id
        WHERE d.token_id > $2 AND ($3::text IS NULL OR coalesce(d.class, 'pending') = $3) AND ($4::text IS NULL OR d.reason = $4)
        ORDER BY d.token_id LIMIT $5
        """
}
