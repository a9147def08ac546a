import Postgres
import PushModel

/// The pages of a user's export, each item as the JSON object that it becomes.
struct UserExportStore {
    private static let pageSize = 200
    private static let notificationPage = 50

    private let session: PostgresSession
    let app: App
    let user: String

    init(_ session: PostgresSession, app: App, user: String) {
        self.session = session
        self.app = app
        self.user = user
    }

    /// A place in a list, by the key of the last row.
    struct Cursor: Sendable {
        var id = PushID.lowest
        var number: Int64 = -1
        /// Of a delivery.
        var place = DeliveryPlace.start
        /// Of the lists that are read one after another.
        var list = 0

        static let first = Cursor()
    }

    struct Page: Sendable {
        var items: [[UInt8]] = []
        var ids: [PushID] = []
        /// Of notifications: other users have deliveries of them too.
        var isToMany = false
        /// Nil at the end.
        var next: Cursor?
    }

    func installations(after cursor: Cursor) throws -> Page {
        let store = InstallationStore(session: session, app: app)
        let found = try store.installations(ownedBy: user, after: cursor.id, limit: Self.pageSize)
        let owned = try store.withinBytes(found)
        var tokens: [PushID: [TokenState]] = [:]
        let rows = try session.execute(
            "SELECT * FROM tokens WHERE app_id = \(app.id) AND installation = ANY (\(owned)) ORDER BY installation, id")
        for row in rows { tokens[try row["installation"], default: []].append(try TokenState(row)) }
        // An installation that was signed out since the page was read is not the user's any more.
        var page = Page()
        for record in try store.records(owned) where record.user.hasSameBytes(as: user) {
            page.items.append(Self.json(Self.installation, (record, tokens[record.id] ?? [])))
        }
        if found.count == Self.pageSize || owned.count < found.count, let last = owned.last { page.next = Cursor(id: last) }
        return page
    }

    /// First every row that names the user, at any installation. Then rows of the user's installations that name no user, installation by
    /// installation, from the user's sign-in on: earlier rows belong to another user.
    func history(after cursor: Cursor) throws -> Page {
        let rows =
            if cursor.list == 0 {
                try session.execute(
                    """
                    SELECT * FROM installation_history WHERE app_id = \(app.id) AND owner = \(user) AND id > \(cursor.number)
                    ORDER BY id LIMIT \(Self.pageSize)
                    """)
            } else {
                try session.execute(
                    """
                    SELECT h.* FROM (
                        SELECT id FROM installations WHERE app_id = \(app.id) AND owner = \(user) AND id >= \(cursor.id) ORDER BY id
                    ) AS i
                    CROSS JOIN LATERAL (
                        SELECT * FROM installation_history h
                        WHERE h.app_id = \(app.id) AND h.installation = i.id AND h.owner IS NULL
                            AND h.id > CASE WHEN i.id = \(cursor.id) THEN \(cursor.number) ELSE -1 END
                            AND h.id > coalesce((
                                SELECT s.id FROM installation_history s
                                WHERE s.app_id = \(app.id) AND s.installation = i.id AND s.owner = \(user)
                                    AND s.event IN ('registered', 'signed_in')
                                ORDER BY s.id DESC LIMIT 1), -1)
                        ORDER BY h.id LIMIT \(Self.pageSize)
                    ) AS h
                    ORDER BY i.id, h.id LIMIT \(Self.pageSize)
                    """)
            }
        var page = Page()
        for row in rows {
            page.items.append(Self.json(Self.historyEntry, try HistoryEntry(row)))
            page.next = Cursor(id: try row["installation"], number: try row["id"], list: cursor.list)
        }
        if rows.count < Self.pageSize { page.next = cursor.list == 1 ? nil : Cursor(list: 1) }
        return page
    }

    func activities() throws -> [ActivityRecord] {
        try ActivityReading(session: session, app: app).page(of: ActivityList(user: user), after: nil, limit: 1000).records
    }

    func quietHours() throws -> QuietHours? { try QuietHoursStore(session: session, app: app).find(user) }

    /// In the order of ``notificationLists(after:)``.
    func notifications(after cursor: Cursor) throws -> Page {
        let lists = notificationLists(after: cursor.id, limit: Self.notificationPage)
        let rows = try session.execute(lists[cursor.list])
        var page = Page()
        // Of a list of users, only the one in question is shown.
        page.isToMany = cursor.list == 1
        for row in rows {
            let id: PushID = try row["id"]
            page.items.append(Self.json(Self.notification, try Sent(row, listed: page.isToMany ? user : nil)))
            page.ids.append(id)
            page.next = Cursor(id: id, list: cursor.list)
        }
        if rows.count < Self.notificationPage { page.next = cursor.list + 1 < lists.count ? Cursor(list: cursor.list + 1) : nil }
        return page
    }

    /// - Parameter isToMany: Other users have deliveries of it too.
    func deliveries(of notification: PushID, isToMany: Bool, after cursor: Cursor) throws -> Page {
        guard isToMany else { return try ownDeliveries(notification, after: cursor.place) }
        let rows = try session.execute(receiptsOfStays(notification, after: cursor.place))
        var page = try Self.page(of: rows)
        if rows.count < Self.pageSize { page.next = nil }
        return page
    }

    private static func page(of deliveries: PostgresRows) throws -> Page {
        var page = Page()
        for row in deliveries {
            page.items.append(json(delivery, try NotificationStatus.Delivery(row)))
            page.next = Cursor(place: try DeliveryPlace(row))
        }
        return page
    }

    /// For a notification that was sent to the user alone: every receipt, and deliveries under way without one to tokens of installations
    /// that the user has now. A token that has moved on may be another user's. It reads the next few jobs: each delivery has its place in one,
    /// and the database forms all deliveries that it reads before it sorts them.
    private func ownDeliveries(_ notification: PushID, after place: DeliveryPlace) throws -> Page {
        let end = place.job + Self.pageSize / PushJob.maximumDeliveries + 1
        let answers = try session.pipeline([
            """
            SELECT d.* FROM deliveries d
            WHERE d.notification = (SELECT id FROM notifications WHERE app_id = \(app.id) AND id = \(notification)) AND d.number >= \(place.job)
                AND d.number < \(end) AND (d.number, d."position") > (\(place.job), \(place.position)) AND (
                    d.has_receipt
                    OR EXISTS (SELECT FROM installations i WHERE i.app_id = \(app.id) AND i.id = d.installation AND i.owner = \(user)))
            ORDER BY d.number, d."position" LIMIT \(Self.pageSize)
            """,
            """
            SELECT least(
                (SELECT number FROM jobs
                WHERE notification = (SELECT id FROM notifications WHERE app_id = \(app.id) AND id = \(notification)) AND number >= \(end)
                ORDER BY number LIMIT 1),
                (SELECT number FROM receipts
                WHERE notification = (SELECT id FROM notifications WHERE app_id = \(app.id) AND id = \(notification)) AND number >= \(end)
                ORDER BY number LIMIT 1)) AS number
            """,
        ])
        var page = try Self.page(of: answers[0])
        if answers[0].count < Self.pageSize {
            let next: Int? = try answers[1].only()["number"]
            page.next = next.map { Cursor(place: DeliveryPlace(job: $0, position: -1)) }
        }
        return page
    }

    /// For a notification that was sent to others as well: the receipts of installations while the user was signed in there, now or by the
    /// history. It goes by the user's installations: others may have millions of receipts. A receipt without an owner epoch may be another
    /// user's.
    private func receiptsOfStays(_ notification: PushID, after place: DeliveryPlace) -> PostgresQuery {
        """
        SELECT DISTINCT ON (r.number, r."position") r.* FROM (
            SELECT id AS installation, owner_epoch AS epochs_from, owner_epoch + 1 AS epochs_below FROM installations
            WHERE app_id = \(app.id) AND owner = \(user)
            UNION ALL
            SELECT installation, epochs_from, epochs_below FROM ended_stays WHERE app_id = \(app.id) AND owner = \(user)
        ) AS s
        JOIN reported_receipts r ON r.installation = s.installation AND r.notification = (SELECT id FROM notifications WHERE app_id = \(app.id) AND id = \(notification))
            AND r.owner_epoch >= greatest(s.epochs_from, 1) AND r.owner_epoch < s.epochs_below
        WHERE (r.number, r."position") > (\(place.job), \(place.position)) ORDER BY r.number, r."position" LIMIT \(Self.pageSize)
        """
    }
}
