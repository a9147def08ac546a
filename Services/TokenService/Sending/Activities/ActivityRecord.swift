package import Postgres
import PushModel
package import TokenServiceApps
package import TokenServiceKit
package import TokenServiceRegistry

/// A Live Activity as the API shows it. Times are UNIX milliseconds.
package struct ActivityRecord: Sendable {
    package enum State: String, Sendable, CaseIterable {
        /// No device has reported its update token yet, and it follows no channel.
        case starting
        case active
        /// The activity's stale date has passed.
        case stale
        case ended
        /// It is off the lock screen.
        case dismissed
    }

    package var activity: UpdateTarget
    package var startedAt: Int64
    package var state: State
    /// When the system ends it, if nothing ends it before.
    package var endsAt: Int64
    /// When it leaves the lock screen, if a state said so.
    package var leavesAt: Int64?
    /// The name of the broadcast channel whose states it shows.
    package var channel: String?
    var place: ActivityList.Place
}

/// A list of an app's Live Activities, by owner and id.
package struct ActivityList: Sendable {
    package var user: String?
    package var state: ActivityRecord.State?

    package init(user: String? = nil, state: ActivityRecord.State? = nil) {
        self.user = user
        self.state = state
    }

    /// The key of an activity within its app, as the database orders them.
    package struct Place: Sendable {
        var owner: String
        var id: String
    }

    package struct Page: Sendable {
        /// May be fewer than the limit, even none, while there is a next page.
        package var records: [ActivityRecord]
        /// The next page begins behind it; nil on the last page.
        var next: Place?
    }

    /// No owner and no id contains the zero byte, which PostgreSQL cannot store.
    package func cursor(_ last: Place, app: App) -> String {
        PageCursor.encode(Array(last.owner.utf8) + [0] + Array(last.id.utf8), list: identity(app))
    }

    package func position(_ cursor: String, app: App) throws(PageCursor.Fault) -> Place {
        let bytes = try PageCursor.decode(cursor, list: identity(app))
        guard let end = bytes.firstIndex(of: 0), !bytes[bytes.index(after: end)...].contains(0) else { throw .unreadable }
        return Place(
            owner: String(decoding: bytes[..<end], as: UTF8.self), id: String(decoding: bytes[bytes.index(after: end)...], as: UTF8.self))
    }

    private func identity(_ app: App) -> [String?] { ["activities", "\(app.id)", user, state?.rawValue] }
}

/// An app's Live Activities as callers see them.
package struct ActivityReading {
    let session: PostgresSession
    let app: App

    package init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    func record(of owner: UpdateTarget.Owner, _ id: String) throws -> ActivityRecord? {
        try session.execute(
            """
            SELECT * FROM activity_records
            WHERE app_id = \(app.id) AND owned_by = activity_owner(\(owner.user), \(owner.installation)) AND id = \(id)
            """
        ).first.map { row in try ActivityRecord(row) }
    }

    /// A page looks at no more than 5,000 activities: a state that few have gives short pages with a next position. The statements have the
    /// number as a literal, as in ``InstallationStore``. With a state they are two, so the transaction must be of isolation
    /// `.repeatableRead`.
    /// - Parameter place: Where the page begins; nil: from the beginning.
    package func page(of list: ActivityList, after place: ActivityList.Place?, limit: Int) throws -> ActivityList.Page {
        let place = place ?? ActivityList.Place(owner: "installation", id: "")
        let found = try session.execute(scan(list, after: place, limit: limit + 1)).map { row in try ActivityRecord(row) }
        let shown = Array(found.prefix(limit))
        if found.count > limit { return ActivityList.Page(records: shown, next: shown.last?.place) }
        guard list.state != nil else { return ActivityList.Page(records: shown, next: nil) }
        let end = try session.execute(scanEnd(list, after: place)).first.map { row in
            ActivityList.Place(owner: try row["owned_by"], id: try row["id"])
        }
        return ActivityList.Page(records: shown, next: end)
    }

    private func scan(_ list: ActivityList, after place: ActivityList.Place, limit: Int) -> PostgresQuery {
        let state = list.state?.rawValue
        if let user = list.user {
            return """
                SELECT * FROM (
                    SELECT * FROM activity_records
                    WHERE app_id = \(app.id) AND owned_by = activity_owner(\(user), NULL) AND id > \(place.id) ORDER BY id LIMIT 5000
                ) AS scanned
                WHERE \(state)::text IS NULL OR state = \(state) ORDER BY id LIMIT \(limit)
                """
        }
        return """
            SELECT * FROM (
                SELECT * FROM activity_records
                WHERE app_id = \(app.id) AND (owned_by, id) > (\(place.owner), \(place.id)) ORDER BY owned_by, id LIMIT 5000
            ) AS scanned
            WHERE \(state)::text IS NULL OR state = \(state) ORDER BY owned_by, id LIMIT \(limit)
            """
    }

    /// The last one that ``scan(_:after:limit:)`` looked at; no row if it came to the end.
    private func scanEnd(_ list: ActivityList, after place: ActivityList.Place) -> PostgresQuery {
        if let user = list.user {
            return """
                SELECT owned_by, id FROM activities
                WHERE app_id = \(app.id) AND owned_by = activity_owner(\(user), NULL) AND id > \(place.id) ORDER BY id OFFSET 4999 LIMIT 1
                """
        }
        return """
            SELECT owned_by, id FROM activities
            WHERE app_id = \(app.id) AND (owned_by, id) > (\(place.owner), \(place.id)) ORDER BY owned_by, id OFFSET 4999 LIMIT 1
            """
    }

    /// Activities that one call of ``remove(of:)`` removes.
    package static let removalBatch = 2000

    /// Removes activities of a user, no more than ``removalBatch``.
    package func remove(of user: String) throws -> RemovalStep {
        let row = try session.execute(
            """
            WITH found AS (
                SELECT owned_by, id FROM activities WHERE app_id = \(app.id) AND owned_by = activity_owner(\(user), NULL)
                ORDER BY id LIMIT \(Self.removalBatch)
            ), removed AS (
                DELETE FROM activities WHERE app_id = \(app.id) AND (owned_by, id) IN (SELECT owned_by, id FROM found) RETURNING id
            )
            SELECT (SELECT count(*) FROM found) AS found, (SELECT count(*) FROM removed) AS removed
            """
        ).only()
        return try RemovalStep(row, limit: Self.removalBatch)
    }
}

extension ActivityRecord {
    /// - Parameter row: A row of `activity_records`.
    fileprivate init(_ row: PostgresRow) throws {
        guard let state = State(rawValue: try row["state"]) else { throw CorruptRow(table: "activities") }
        self.init(
            activity: try UpdateTarget(row), startedAt: try row.milliseconds("started_at"), state: state,
            endsAt: try row.milliseconds("ends_at"), leavesAt: try row.milliseconds("leaves_at"), channel: try row["channel_name"],
            place: ActivityList.Place(owner: try row["owned_by"], id: try row["id"]))
    }

    package static let response = ResponseSchema<ActivityRecord>.object("LiveActivity", fields)
    static let page = PageResponse.schema("LiveActivities", "activities", of: response)

    static let fields: [ResponseSchema<ActivityRecord>.Field] = [
        .required("id", .text(.string(Purpose.maximumNameBytes).example("ride-4711"))) { $0.activity.key.id },
        .nullable("user", .text(.user), "Null: of an installation without a user.") { $0.activity.key.owner.user },
        .optional("installation", .uuid, "Of an activity without a user.") { $0.activity.key.owner.installation },
        .nullable("attributes_type", .text(.string(Purpose.maximumNameBytes).example("Ride"))) { $0.activity.attributesType },
        .required(
            "state", .word,
            """
            `starting`: no device has reported an update token, and it follows no channel. `ended`: by its sender, by its channel, by a \
            sign-out or eight hours after its start, or a day after a start that no device has reported. `dismissed`: off the lock screen.
            """
        ) { $0.state },
        .required("started_at", .time, "When its start was accepted or due, or when a device first reported its update token.") {
            $0.startedAt
        },
        .nullable("reported_at", .time, "When a device first reported its update token.") { $0.activity.reportedAt },
        .required("ends_at", .time, "When it ended, or when the system ends it.") { $0.endsAt },
        .nullable("stale_at", .time, "Of the newest state.") { $0.activity.staleAt },
        .nullable("dismissed_at", .time, "When it leaves the lock screen, if that is known.") { $0.leavesAt },
        .nullable("channel", .text(.string(Purpose.maximumNameBytes).example("game-17")), "The broadcast channel whose states it shows.") {
            $0.channel
        },
        .nullable("newest", .uuid, "The notification with the newest state.") { $0.activity.queue.newest },
        .nullable("newest_timestamp", .integer(.integer(0...Int64.max)), "Of that state, UNIX seconds.") {
            $0.activity.queue.newestTimestamp
        },
        .required("waiting", .boolean, "The newest state waits: for an update token, the update before it, or the app's window.") {
            $0.activity.queue.isWaiting
        },
        .required("frequent_updates", .boolean, "The person lets the app update its activities frequently.") {
            $0.activity.hasFrequentUpdates
        },
    ]
}
