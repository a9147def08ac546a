import Postgres
import PushModel
import StrictJSON

/// The pages of a user's export, each item as the JSON object that it becomes.
struct UserExportStore {
    private static let pageSize: Int64 = 200
    private static let notificationPage: Int64 = 50

    private let session: PostgresSession
    private let app: App
    private let user: String

    init(_ session: PostgresSession, app: App, user: String) {
        self.session = session
        self.app = app
        self.user = user
    }

    /// A place in a walk, by the key of the last row.
    struct Cursor: Sendable {
        var id = PushID(high: 0, low: 0)
        var number: Int64 = -1
        /// Of the walks that make up a list, one after another.
        var walk = 0

        static let first = Cursor()
    }

    struct Page: Sendable {
        var items: [[UInt8]] = []
        var ids: [PushID] = []
        /// Of notifications: others have deliveries of them too.
        var isToMany = false
        /// Nil at the end.
        var next: Cursor?
    }

    func installations(after cursor: Cursor) throws -> Page {
        let store = InstallationStore(session: session, app: app)
        let owned = try session.execute(
            InstallationStore.ownedPage, [.int64(app.id), .text(user), .id(cursor.id), .int64(Self.pageSize)]
        ).map { row in try row.id(0) }
        var tokens: [PushID: [Token]] = [:]
        for row in try session.execute(Self.tokens, [.int64(app.id), .ids(owned)]) {
            tokens[try row.id(0), default: []].append(try Token(row))
        }
        // Whoever was signed out since the page was read is not theirs any more.
        var page = Page()
        for record in try store.records(owned) where record.user.hasSameBytes(as: user) {
            page.items.append(Self.json(Self.installation, (record, tokens[record.id] ?? [])))
        }
        if owned.count == Self.pageSize, let last = owned.last { page.next = Cursor(id: last) }
        return page
    }

    /// First every row that names the user, wherever it is; then the rows of the user's installations that name nobody.
    func history(after cursor: Cursor) throws -> Page {
        let rows =
            if cursor.walk == 1 {
                try session.execute(
                    Self.ownerlessHistory,
                    [.int64(app.id), .text(user), .id(cursor.id), .int64(cursor.number), .int64(Self.pageSize)])
            } else {
                try session.execute(
                    Self.history, [.int64(app.id), .text(user), .int64(cursor.number), .int64(Self.pageSize)])
            }
        var page = Page()
        for row in rows {
            let installation = try row.id(14)
            page.items.append(Self.json(Self.historyEntry, try InstallationHistory.entry(row, of: installation, app: app)))
            page.next = Cursor(id: installation, number: try row.int64(0), walk: cursor.walk)
        }
        if rows.count < Self.pageSize { page.next = cursor.walk == 1 ? nil : Cursor(walk: 1) }
        return page
    }

    /// First those sent to the user by name; then those to lists that name the user; then those sent to the user's installations during the present epoch; then those sent to
    /// installations while the user was signed in there, as the history tells, who has left them since.
    func notifications(after cursor: Cursor) throws -> Page {
        let parameters: [PostgresValue] = [.int64(app.id), .text(user), .id(cursor.id), .int64(Self.notificationPage)]
        let walks = [Self.notificationsToUser, Self.notificationsToLists, Self.notificationsToInstallations, Self.notificationsToLeft]
        let rows = try session.execute(walks[cursor.walk], parameters)
        var page = Page()
        for row in rows {
            page.items.append(Self.json(Self.notification, try Sent(row, asked: user)))
            page.ids.append(try row.id(0))
            page.isToMany = try row.bool(12)
            page.next = Cursor(id: try row.id(0), walk: cursor.walk)
        }
        if rows.count < Self.notificationPage { page.next = cursor.walk + 1 < walks.count ? Cursor(walk: cursor.walk + 1) : nil }
        return page
    }

    func quietHours() throws -> QuietHours? { try QuietHoursStore(session: session, app: app).find(user) }

    /// - Parameter isToMany: Only those to the user's own installations.
    func deliveries(of notification: PushID, isToMany: Bool, after cursor: Cursor) throws -> Page {
        let place: [PostgresValue] = [.id(notification), .int64(cursor.number), .int64(Self.pageSize)]
        let rows = try isToMany ? session.execute(Self.ownDeliveries, place + [.text(user)]) : session.execute(Self.deliveries, place)
        var page = Page()
        for row in rows {
            page.items.append(Self.json(Self.delivery, try Self.delivery(row)))
            page.next = Cursor(number: try row.int64(0))
        }
        if rows.count < Self.pageSize { page.next = nil }
        return page
    }
}
