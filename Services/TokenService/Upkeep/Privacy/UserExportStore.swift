import Postgres
import PushModel
import StrictJSON
import TokenServiceApps
import TokenServiceKit
import TokenServiceRegistry
import TokenServiceSending

/// The pages of a user's export, each item as the JSON object that it becomes.
struct UserExportStore {
    private static let pageSize = 200
    private static let notificationPage = 50
    /// Installations, or rows of the history, that one page looks at.
    private static let placesOfPage = 1000

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
        /// The place of a delivery.
        var place = DeliveryPlace.start
        /// Which of the lists that are read one after another it is.
        var list = 0
        /// The installation where the next page begins, in a list that goes through the user's installations.
        var installation = PushID.lowest
        /// The row of the history where the next page begins, in a list that goes through the user's former installations.
        var line: Int64 = 0

        static let first = Cursor()
    }

    struct Page: Sendable {
        var items: [[UInt8]] = []
        var ids: [PushID] = []
        /// Whether other users have deliveries of the page's notifications too.
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
        if cursor.list == 0 {
            let rows = try session.execute(
                """
                SELECT * FROM installation_history WHERE app_id = \(app.id) AND owner = \(user) AND id > \(cursor.number)
                ORDER BY id LIMIT \(Self.pageSize)
                """)
            var page = Page()
            for row in rows {
                page.items.append(Self.json(Self.historyEntry, try HistoryEntry(row)))
                page.next = Cursor(number: try row["id"])
            }
            if rows.count < Self.pageSize { page.next = Cursor(list: 1) }
            return page
        }
        let stays = try presentStays(from: cursor)
        guard let last = stays.installations.last else { return Page() }
        let rows = try session.execute(
            """
            SELECT h.* FROM (
                SELECT id FROM installations
                WHERE app_id = \(app.id) AND owner = \(user) AND id >= \(cursor.installation) AND id <= \(last) ORDER BY id
            ) AS i
            CROSS JOIN LATERAL (
                SELECT * FROM installation_history h
                WHERE h.app_id = \(app.id) AND h.installation = i.id AND h.owner IS NULL
                    AND h.id > CASE WHEN i.id = \(cursor.installation) THEN \(cursor.number) ELSE -1 END
                    AND h.id > coalesce((
                        SELECT s.id FROM installation_history s
                        WHERE s.app_id = \(app.id) AND s.installation = i.id AND (s.owner = \(user)) IS TRUE
                            AND s.event IN ('registered', 'signed_in')
                        ORDER BY s.id DESC LIMIT 1), -1)
                ORDER BY h.id LIMIT \(Self.pageSize)
            ) AS h
            ORDER BY i.id, h.id LIMIT \(Self.pageSize)
            """)
        var page = Page()
        for row in rows {
            page.items.append(Self.json(Self.historyEntry, try HistoryEntry(row)))
            page.next = Cursor(number: try row["id"], list: 1, installation: try row["installation"])
        }
        if rows.count < Self.pageSize { page.next = stays.following }
        return page
    }

    func activities() throws -> [ActivityRecord] {
        try ActivityReading(session: session, app: app).page(of: ActivityList(user: user), after: nil, limit: 1000).records
    }

    func quietHours() throws -> QuietHours? { try QuietHoursStore(session: session, app: app).find(user) }

    /// First the notifications sent to the user by name; then those to lists that name the user; then those sent to the user's
    /// installations during the present epoch; then those sent to installations while the user was signed in there, by the history. The
    /// epoch at acceptance identifies the addressee of a notification to an installation.
    func notifications(after cursor: Cursor) throws -> Page {
        let limit = Self.notificationPage
        let stays: Stays? =
            switch cursor.list {
            case 0, 1: nil
            case 2: try presentStays(from: cursor)
            default: try endedStays(from: cursor)
            }
        let query: PostgresQuery =
            if let stays { sent(to: stays, after: cursor, limit: limit) } else {
                cursor.list == 0 ? sentToUser(after: cursor.id, limit: limit) : sentToLists(after: cursor.id, limit: limit)
            }
        let rows = try session.execute(query)
        var page = Page()
        // Of a list of users, only the one in question is shown.
        page.isToMany = cursor.list == 1
        for row in rows {
            let id: PushID = try row["id"]
            page.items.append(Self.json(Self.notification, try Sent(row, listed: page.isToMany ? user : nil)))
            page.ids.append(id)
            var next = Cursor(id: id, list: cursor.list)
            if stays != nil {
                next.installation = try row["target_installation"]
                next.line = try row["line"]
            }
            page.next = next
        }
        if rows.count < limit { page.next = stays?.following ?? (cursor.list < 3 ? Cursor(list: cursor.list + 1) : nil) }
        return page
    }

    /// - Parameter isToMany: Other users have deliveries of it too.
    func deliveries(of notification: PushID, isToMany: Bool, after cursor: Cursor) throws -> Page {
        guard isToMany else { return try ownDeliveries(notification, after: cursor.place) }
        let stays = try cursor.list == 0 ? presentStays(from: cursor) : endedStays(from: cursor)
        var page = try Self.page(of: try session.execute(receipts(of: notification, during: stays)))
        page.next = stays.following ?? (cursor.list == 0 ? Cursor(list: 1) : nil)
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

    /// Reads the deliveries of a notification that was sent to the user alone: every receipt, and deliveries under way without one to
    /// tokens of installations that the user has now. A token that has moved on may be another user's. It reads the next few jobs: each
    /// delivery has its place in one, and the database forms all deliveries that it reads before it sorts them.
    private func ownDeliveries(_ notification: PushID, after place: DeliveryPlace) throws -> Page {
        let end = place.job + Self.pageSize / PushJob.maximumDeliveries + 1
        let answers = try session.pipeline([
            """
            SELECT d.* FROM deliveries d
            WHERE d.notification = (SELECT id FROM notifications WHERE app_id = \(app.id) AND id = \(notification))
                AND d.number >= \(place.job)
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

    /// Reads, for a notification that was sent to others as well, the receipts of installations while the user was signed in there, now or
    /// by the history. It goes by the user's installations: others may have millions of receipts. Each of them has few. A receipt without
    /// an owner epoch may be another user's.
    private func receipts(of notification: PushID, during stays: Stays) -> PostgresQuery {
        """
        SELECT r.* FROM unnest(\(stays.installations)::uuid[], \(stays.epochsFrom)::bigint[], \(stays.epochsBelow)::bigint[])
            AS s (installation, epochs_from, epochs_below)
        CROSS JOIN LATERAL (
            SELECT * FROM reported_receipts
            WHERE installation = s.installation
                AND notification = (SELECT id FROM notifications WHERE app_id = \(app.id) AND id = \(notification))
                AND owner_epoch >= greatest(s.epochs_from, 1) AND owner_epoch < s.epochs_below
            ORDER BY owner_epoch
        ) AS r
        ORDER BY r.number, r."position"
        """
    }
}

/// The user may have any number of installations, and may have left any number: a page looks at a bounded number of them.
extension UserExportStore {
    /// Times of the user at installations. No two at one installation have an epoch in common.
    struct Stays {
        fileprivate(set) var installations: [PushID] = []
        fileprivate(set) var epochsFrom: [Int64] = []
        fileprivate(set) var epochsBelow: [Int64] = []
        /// The rows of the history that end them; 0 for a stay that goes on.
        fileprivate(set) var lines: [Int64] = []
        /// Where the stays go on; nil at the end.
        fileprivate(set) var following: Cursor?

        fileprivate init(_ rows: some Sequence<PostgresRow>) throws {
            for row in rows {
                installations.append(try row["installation"])
                epochsFrom.append(try row["epochs_from"])
                epochsBelow.append(try row["epochs_below"])
                lines.append(try row["line"])
            }
        }
    }

    /// Reads the user's present stays in the order of their installations.
    private func presentStays(from cursor: Cursor) throws -> Stays {
        let rows = try session.execute(
            """
            SELECT id AS installation, owner_epoch AS epochs_from, owner_epoch + 1 AS epochs_below, 0::bigint AS line FROM installations
            WHERE app_id = \(app.id) AND owner = \(user) AND id >= \(cursor.installation) ORDER BY id LIMIT \(Self.placesOfPage + 1)
            """)
        var stays = try Stays(rows.prefix(Self.placesOfPage))
        if rows.count > Self.placesOfPage {
            stays.following = Cursor(list: cursor.list, installation: try rows[Self.placesOfPage]["installation"])
        }
        return stays
    }

    /// Reads the user's ended stays in the order of the history.
    private func endedStays(from cursor: Cursor) throws -> Stays {
        let lines: [Int64] = try session.execute(
            """
            SELECT id FROM installation_history WHERE app_id = \(app.id) AND owner = \(user) AND id >= \(cursor.line)
            ORDER BY id LIMIT \(Self.placesOfPage + 1)
            """
        ).column("id")
        let isLast = lines.count <= Self.placesOfPage
        let end: Int64 = isLast ? .max : lines[Self.placesOfPage]
        let rows = try session.execute(
            """
            SELECT installation, epochs_from, epochs_below, history_to AS line FROM ended_stays
            WHERE app_id = \(app.id) AND owner = \(user) AND history_to >= \(cursor.line) AND history_to < \(end)
            ORDER BY history_to
            """)
        var stays = try Stays(rows)
        if !isLast { stays.following = Cursor(list: cursor.list, line: end) }
        return stays
    }

    private func sentToUser(after id: PushID, limit: Int) -> PostgresQuery {
        "SELECT * FROM notifications WHERE app_id = \(app.id) AND target_user = \(user) AND id > \(id) ORDER BY id LIMIT \(limit)"
    }

    private func sentToLists(after id: PushID, limit: Int) -> PostgresQuery {
        """
        SELECT n.* FROM targets t JOIN notifications n ON n.id = t.notification
        WHERE t.app_id = \(app.id) AND t.owner = \(user) AND t.notification > \(id) ORDER BY t.notification LIMIT \(limit)
        """
    }

    /// Reads what was sent to the stays, in their order.
    private func sent(to stays: Stays, after cursor: Cursor, limit: Int) -> PostgresQuery {
        """
        SELECT n.*, s.line FROM (
            SELECT * FROM unnest(\(stays.installations)::uuid[], \(stays.epochsFrom)::bigint[], \(stays.epochsBelow)::bigint[],
                    \(stays.lines)::bigint[])
                WITH ORDINALITY AS e (installation, epochs_from, epochs_below, line, place)
            ORDER BY place
        ) AS s
        CROSS JOIN LATERAL (
            SELECT * FROM notifications
            WHERE app_id = \(app.id) AND target_installation = s.installation AND target_epoch >= s.epochs_from
                AND target_epoch < s.epochs_below AND id > CASE
                    WHEN s.line = \(cursor.line) AND (s.line > 0 OR s.installation = \(cursor.installation)) THEN \(cursor.id)::uuid
                    ELSE \(PushID.lowest)::uuid END
            ORDER BY id LIMIT \(limit)
        ) AS n
        ORDER BY s.place, n.id LIMIT \(limit)
        """
    }
}

/// Rows as JSON objects. Tokens in full: they are the person's own.
extension UserExportStore {
    static func json<Value>(_ schema: ResponseSchema<Value>, _ value: Value) -> [UInt8] {
        var writer = JSONWriter()
        schema.write(value, &writer)
        return writer.bytes
    }

    static let installation = ResponseSchema<(record: InstallationRecord, tokens: [TokenState])>.object(
        "ExportedInstallation",
        [
            .required("id", .uuid) { $0.record.id },
            .required("owner_epoch", .count) { $0.record.ownerEpoch },
            .required("tokens", .array(token)) { $0.tokens },
            .required("created_at", .time) { $0.record.createdAt },
            .required("registered_at", .time) { $0.record.registeredAt },
            .optional("throttled_until", .time) { $0.record.throttledUntil },
            .all(InstallationProfile.texts) { $0.record.profile },
            .required("tags", .array(.text(.tag))) { $0.record.tags },
            .required("app_tags", .array(.text(.tag))) { $0.record.profile.appTags },
        ])

    private static let token = ResponseSchema<TokenState>.object(
        nil,
        [
            .required("token", .deviceToken) { $0.token },
            .all(InstallationRecord.Token.fields) { InstallationRecord.Token($0) },
            .optional("proven_at", .time, "Since when APNs is known to take it.") { $0.provenAt },
            .optional("quarantined_at", .time) { $0.quarantinedAt },
            .optional("ended_by_apns_times", .count, "How often APNs has said that it is over.") {
                $0.endsByAPNs.times > 0 ? $0.endsByAPNs.times : nil
            },
            .optional(
                "silent_since", .time,
                "When its device last reported an activity of the type, or the last start was sent that counts as silent."
            ) { $0.starts.since },
            .optional("silent_starts", .count, "Starts without a report since.") { $0.starts.silent > 0 ? $0.starts.silent : nil },
        ])

    static let historyEntry = ResponseSchema<HistoryEntry>.object(
        "ExportedHistoryEntry",
        [
            .required("installation", .uuid) { $0.installation },
            .required("at", .time) { $0.at },
            .required("event", .word) { $0.event },
            .optional("owner_epoch", .count) { $0.ownerEpoch },
            .optional("user", .text(.user)) { $0.owner },
            .optional("token_hint", .text(.tokenHint)) { $0.token?.hint },
            .optional("environment", .text(.environment)) { $0.token?.environment },
            .optional("purpose", .text(.purpose)) { $0.token?.purpose },
        ] + HistoryEntry.causes)
}
