import Postgres
package import PushModel
import StrictJSON
package import TokenServiceApps
import TokenServiceKit
import TokenServiceRegistry
import TokenServiceSending

/// How far one reader of a log has come.
///
/// PostgreSQL gives the numbers of a log before their transaction commits, so a lower one may appear after a higher one. A number can be
/// read only when every transaction has ended that was open when the reader first saw it.
struct LogProgress: Sendable {
    /// Rows up to here are done.
    var position: Int64
    /// Rows up to here are committed, or never will be.
    private(set) var readable: Int64
    /// Rows up to its `last` become readable when the transactions of its snapshot have ended.
    private var horizon: EventStore.Horizon?
    private(set) var last: Int64

    init(position: Int64) { (self.position, readable, last) = (position, position, position) }

    /// Gives a transaction its id that has written nothing before its insert into a log. PostgreSQL gives a row its number first, and the
    /// transaction its id with the row: a reader between the two sees no open transaction, and reads past the number.
    static var transactionID: PostgresQuery { "SELECT pg_current_xact_id()" }

    mutating func see(_ latest: EventStore.Horizon) {
        if let horizon, latest.oldestOpen >= horizon.next {
            readable = max(readable, horizon.last)
            self.horizon = nil
        }
        if horizon == nil, latest.last > readable { horizon = latest }
        last = max(latest.last, position)
    }
}

/// The tables that feeds read events from, and the position of each feed.
/// It works for every app, and takes no id from a request.
struct EventStore {
    let session: PostgresSession

    /// The end of a log, in one snapshot of the database.
    struct Horizon: Sendable {
        /// The highest number.
        var last: Int64
        /// Every transaction before this one has ended.
        var oldestOpen: Int64
        /// No transaction from this one on has begun to write.
        var next: Int64
    }

    /// One event, and the number of its row.
    struct Entry: Sendable {
        var position: Int64
        var event: PlatformEvent
    }

    func position(of feed: EventFeed.Name) throws -> Int64 {
        try session.execute("SELECT position FROM event_feeds WHERE log = \(feed.log) AND sink = \(feed.sink)").only()["position"]
    }

    /// The apps that are behind the position of a feed, and how far each has come.
    func behind(in feed: EventFeed.Name) throws -> [(app: App.ID, slug: AppSlug, position: Int64)] {
        try session.execute(
            """
            SELECT b.app, (SELECT slug FROM apps WHERE id = b.app) AS slug, b.position
            FROM event_feeds f CROSS JOIN LATERAL unnest(f.behind_apps, f.behind_positions) AS b (app, position)
            WHERE f.log = \(feed.log) AND f.sink = \(feed.sink)
            """
        ).map { row in (app: try row["app"], slug: try row["slug"], position: try row["position"]) }
    }

    /// - Parameter behind: The apps that are behind, and how far each has come.
    func advance(_ feed: EventFeed.Name, to position: Int64, behind: [App.ID: Int64]) throws {
        try session.execute(
            """
            UPDATE event_feeds SET position = \(position), behind_apps = \(Array(behind.keys))::bigint[],
                behind_positions = \(Array(behind.values))::bigint[]
            WHERE log = \(feed.log) AND sink = \(feed.sink)
            """)
    }

    func horizon(of log: EventLog) throws -> Horizon {
        let row = try session.execute(
            """
            SELECT CASE \(log)
                    WHEN 'notifications' THEN (SELECT max(id) FROM notification_events)
                    WHEN 'device_receipts' THEN (SELECT max(id) FROM device_receipts)
                    ELSE (SELECT max(id) FROM installation_history) END AS last,
                pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS oldest_open,
                pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next
            """
        ).only()
        return Horizon(last: try row["last"] ?? 0, oldestOpen: try row["oldest_open"], next: try row["next"])
    }

    /// The apps whose events of this log go to the exchange of outcomes.
    func streamingApps(_ log: EventLog) throws -> [App.ID] {
        try session.execute("SELECT id FROM apps WHERE \(log) = ANY (event_stream)").column("id")
    }

    /// So many rows are read at least behind one that cannot be read, so that it is seen beside others.
    private static let judgedTogether = 8

    /// The events of those apps after one number and up to another, at most `limit`. A row that cannot be read is left out if at least as
    /// many others can be: else the fault may concern every row.
    /// - Parameter onUnreadable: Called with the number of each row that is left out.
    func entries(
        of log: EventLog, after position: Int64, upTo end: Int64, apps: [App.ID], limit: Int,
        onUnreadable: (Int64, any Error) -> Void = { _, _ in }
    ) throws -> [Entry] {
        var (found, unreadable, from): ([Entry], [(position: Int64, error: any Error)], Int64) = ([], [], position)
        // Callers take fewer than `limit` for the end of the log.
        while found.count < limit, unreadable.count <= found.count + BatchSplit.maximumFaults {
            let size = unreadable.isEmpty ? limit - found.count : max(limit - found.count, Self.judgedTogether)
            let rows = try rows(of: log, after: from, upTo: end, apps: apps, limit: size)
            for row in rows {
                do { found.append(try row.entry.get()) } catch { unreadable.append((row.position, error)) }
            }
            guard rows.count == size, let last = rows.last else { break }
            from = last.position
        }
        if let first = unreadable.first, unreadable.count > found.count { throw first.error }
        let reached = found.count < limit ? end : found[limit - 1].position
        for row in unreadable where row.position <= reached { onUnreadable(row.position, row.error) }
        return Array(found.prefix(limit))
    }

    private typealias Row = (position: Int64, entry: Result<Entry, any Error>)

    private static func decode(_ rows: PostgresRows, _ body: (PostgresRow) throws -> Entry) throws -> [Row] {
        try rows.map { row in (try row["id"], Result { try body(row) }) }
    }

    private func rows(of log: EventLog, after position: Int64, upTo end: Int64, apps: [App.ID], limit: Int) throws -> [Row] {
        switch log {
        case .notifications: try notifications(after: position, upTo: end, apps: apps, limit: limit)
        case .installations: try installations(after: position, upTo: end, apps: apps, limit: limit)
        case .deviceReceipts: try deviceReceipts(after: position, upTo: end, apps: apps, limit: limit)
        }
    }

    /// An event of a notification that was erased or removed is left out.
    private func notifications(after position: Int64, upTo end: Int64, apps: [App.ID], limit: Int) throws -> [Row] {
        let rows = try session.execute(
            """
            SELECT e.id, e.app_id, a.slug, e.notification, e.event, e.at, n.lane, n.push_type, n.accepted_at, n.expires_at, n.total,
                f.notification IS NOT NULL AS is_fanned_out
            FROM notification_events e JOIN apps a ON a.id = e.app_id JOIN notifications n ON n.id = e.notification
            LEFT JOIN fan_outs f ON f.notification = e.notification
            WHERE e.id > \(position) AND e.id <= \(end) AND e.app_id = ANY (\(apps)) ORDER BY e.id LIMIT \(limit)
            """)
        let counts = try counts(of: rows.filter { try NotificationChange.isLast($0["event"]) }.map { try $0["notification"] })
        return try Self.decode(rows) { row in
            let (id, event): (PushID, String) = (try row["notification"], try row["event"])
            // A notification with fan-out has no total before it.
            let isResolved = try !(row["is_fanned_out"] as Bool && ["accepted", "scheduled"].contains(event))
            let total: Int32 = try row["total"]
            let change = NotificationChange(
                notification: id, event: event, lane: try row["lane"], pushType: try row["push_type"],
                acceptedAt: try row.milliseconds("accepted_at"), expiresAt: try row.milliseconds("expires_at"),
                total: isResolved ? Int(total) : nil, counts: NotificationChange.isLast(event) ? counts[id] ?? [:] : nil)
            let (position, at): (Int64, Int64) = (try row["id"], try row.milliseconds("at"))
            return Entry(
                position: position,
                event: change.event(
                    id: PlatformEvent.id(of: .notifications, row: position, at: at), app: try row["app_id"], slug: try row["slug"], at: at))
        }
    }

    /// Final deliveries by class.
    private func counts(of notifications: [PushID]) throws -> [PushID: [String: Int]] {
        guard !notifications.isEmpty else { return [:] }
        let rows = try session.execute(
            """
            SELECT n.id, o.class, o.count
            FROM unnest(\(notifications)::uuid[]) AS e (id) JOIN notifications n ON n.id = e.id CROSS JOIN LATERAL unnest(n.outcomes) AS o
            """)
        var counts: [PushID: [String: Int]] = [:]
        for row in rows { counts[try row["id"], default: [:]][try row["class"], default: 0] += try row["count"] as Int }
        return counts
    }

    private func installations(after position: Int64, upTo end: Int64, apps: [App.ID], limit: Int) throws -> [Row] {
        let rows = try session.execute(
            """
            SELECT h.*, a.slug FROM installation_history h JOIN apps a ON a.id = h.app_id
            WHERE h.id > \(position) AND h.id <= \(end) AND h.app_id = ANY (\(apps)) ORDER BY h.id LIMIT \(limit)
            """)
        return try Self.decode(rows) { row in
            let entry = try HistoryEntry(row)
            let position: Int64 = try row["id"]
            let id = PlatformEvent.id(of: .installations, row: position, at: entry.at)
            return Entry(position: position, event: entry.event(id: id, slug: try row["slug"]))
        }
    }

    private func deviceReceipts(after position: Int64, upTo end: Int64, apps: [App.ID], limit: Int) throws -> [Row] {
        let rows = try session.execute(
            """
            SELECT r.*, delivery_id(r.notification, r.number, r."position") AS delivery, a.slug
            FROM device_receipts r JOIN apps a ON a.id = r.app_id
            WHERE r.id > \(position) AND r.id <= \(end) AND r.app_id = ANY (\(apps)) ORDER BY r.id LIMIT \(limit)
            """)
        return try Self.decode(rows) { row in
            let receipt = try DeviceReceipt.Stored(row)
            let position: Int64 = try row["id"]
            return Entry(position: position, event: receipt.event(id: PlatformEvent.id(of: .deviceReceipts, row: position, at: receipt.at)))
        }
    }
}

/// A row of `notification_events`, with the notification's present state.
package struct NotificationChange: Sendable {
    package var notification: PushID
    /// A ``NotificationState``, or `superseded`.
    package var event: String
    package var lane: String
    package var pushType: String
    /// UNIX milliseconds, as are the others.
    package var acceptedAt: Int64
    package var expiresAt: Int64
    /// Deliveries that exist; nil before the notification has any.
    package var total: Int?
    /// Final deliveries by class, where the event is the last.
    package var counts: [String: Int]?

    package init(
        notification: PushID, event: String, lane: String, pushType: String, acceptedAt: Int64, expiresAt: Int64, total: Int? = nil,
        counts: [String: Int]? = nil
    ) {
        self.notification = notification
        self.event = event
        self.lane = lane
        self.pushType = pushType
        self.acceptedAt = acceptedAt
        self.expiresAt = expiresAt
        self.total = total
        self.counts = counts
    }

    /// Whether no event follows, so that the counts are final.
    package static func isLast(_ event: String) -> Bool { ["completed", "expired", "no_targets"].contains(event) }

    package func event(id: PushID, app: App.ID, slug: AppSlug, at time: Int64) -> PlatformEvent {
        PlatformEvent(id: id, topic: "notification.\(event)", app: app, slug: slug, subject: "notifications/\(notification)", time: time) {
            writer in
            writer.plainField("notification", notification.append)
            writer.field("state", event == "superseded" ? "cancelled" : event)
            writer.field("lane", lane)
            writer.field("push_type", pushType)
            writer.field("accepted_at_ms", acceptedAt)
            writer.field("expires_at_ms", expiresAt)
            writer.field("total", total)
            guard let counts else { return }
            writer.object("counts") { object in
                for (name, number) in counts.sorted(by: { $0.key < $1.key }) { object.field(name, number) }
            }
        }
    }
}
