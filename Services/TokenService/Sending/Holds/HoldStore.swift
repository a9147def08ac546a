package import Postgres
package import PushModel
package import TokenServiceApps
import TokenServiceKit

/// The holds that a caller may see and lift, within one transaction: those of one app, or with an operator's key of every app.
/// ``HoldOutbox`` has the jobs and fan-outs that wait because of them.
package struct HoldStore {
    /// Holds of one app that may be in force at once: every dispatcher remembers those of all apps.
    package static let maximumPerApp = 100
    /// Holds over every app that may be in force at once. No app's own holds use them up.
    package static let maximumOverApps = 1000
    /// How many holds may be set within 73 hours for each that may be in force: for so long every dispatcher remembers each hold that it
    /// has read, in force or not.
    private static let setsForEach = 10
    /// An id above every other.
    private static let highest = PushID(high: .max, low: .max)

    private let session: PostgresSession
    private let app: App?

    /// - Parameter app: nil for the operator's routes, which act on every app's holds and on those over every app.
    package init(session: PostgresSession, app: App?) {
        self.session = session
        self.app = app
    }

    /// - Throws: ``TooManyHolds``, ``UnknownNotification``.
    package func insert(_ request: HoldRequest, by key: String, id: PushID) throws -> Hold {
        if let notification = request.scope.notification {
            let found = try session.execute("SELECT FROM notifications WHERE id = \(notification) AND app_id = \(app?.id)")
            guard found.affected == 1 else { throw UnknownNotification() }
        }
        // One at a time of an app, so that two do not both take the last place. The key's first half is the word "hold".
        try session.execute("SELECT pg_advisory_xact_lock(1752132708, (coalesce(\(app?.id)::bigint, 0) % 2147483647)::int)")
        let counts: [Int] = try session.pipeline([
            """
            SELECT count(*) AS count FROM holds
            WHERE app_id IS NOT DISTINCT FROM \(app?.id) AND lifted_at IS NULL AND ends_at > now()
            """,
            """
            SELECT count(*) AS count FROM (
                SELECT FROM holds
                WHERE (app_id, id) >= (\(app?.id), first_id_at(now() - interval '73 hours'))
                    AND (app_id, id) <= (\(app?.id), \(Self.highest))
                UNION ALL
                SELECT FROM holds
                WHERE \(app?.id)::bigint IS NULL AND app_id IS NULL AND id >= first_id_at(now() - interval '73 hours')
            ) AS set_lately
            """,
        ]).map { try $0.only()["count"] }
        let maximum = app == nil ? Self.maximumOverApps : Self.maximumPerApp
        guard counts[0] < maximum else { throw TooManyHolds(maximum: maximum, areInForce: true) }
        guard counts[1] < maximum * Self.setsForEach else { throw TooManyHolds(maximum: maximum * Self.setsForEach, areInForce: false) }
        try session.execute(
            """
            INSERT INTO holds (id, app_id, lane, notification, reason, set_at, set_by, ends_at)
            VALUES (\(id), \(app?.id), \(request.scope.lane), \(request.scope.notification), \(request.reason), now(), \(key),
                coalesce(\(milliseconds: request.endsAt)::timestamptz, 'infinity'))
            """)
        try AuditStore(session: session).record(.holdSet, by: .key(key), app: app?.slug, object: id.description)
        return try Hold(
            session.execute("SELECT * FROM holds_with_state WHERE id = \(id) AND app_id IS NOT DISTINCT FROM \(app?.id)").only())
    }

    /// Finds the hold; with an app, among its holds and those over every app.
    package func find(_ id: PushID) throws -> Hold? {
        try session.execute(
            """
            SELECT * FROM holds_with_state
            WHERE id = \(id) AND (\(app?.id)::bigint IS NULL OR app_id IS NULL OR app_id = \(app?.id))
            """
        ).first.map { row in try Hold(row) }
    }

    /// Ends a hold that is in force; leaves one that is over as it is. Waits for transactions that put rows aside because of the hold, so
    /// that the release finds them. An app lifts its own holds alone.
    /// - Throws: ``APIError`` 404 where there is none.
    package func lift(_ id: PushID, by key: String) throws -> Hold {
        guard let hold = try find(id), app == nil || hold.appID != nil else { throw APIError.notFound }
        let lifted = try session.execute(
            """
            UPDATE holds SET lifted_at = now(), lifted_by = \(key), published_at = NULL
            WHERE id = \(id) AND (\(app?.id)::bigint IS NULL OR app_id = \(app?.id)) AND lifted_at IS NULL AND ends_at > now()
            """)
        if lifted.affected == 1 {
            try AuditStore(session: session).record(.holdLifted, by: .key(key), app: hold.scope.app, object: id.description)
        }
        return try find(id) ?? hold
    }

    package struct Page: Sendable {
        package var holds: [Hold]
        /// Where the next page begins; nil at the end.
        package var last: PushID?
    }

    /// The newest first: with an app, its holds and those over every app.
    package func page(state: Hold.State?, after: PushID?, limit: Int) throws -> Page {
        let end = after ?? Self.highest
        // By the app and the id, so that no part goes by the id alone, past the holds of other apps.
        var holds = try session.execute(
            """
            WITH operators AS (
                SELECT * FROM holds_with_state
                WHERE \(app?.id)::bigint IS NULL AND (\(state)::text IS NULL OR state = \(state)) AND id < \(end)
                ORDER BY id DESC LIMIT \(limit + 1)
            ), own AS (
                SELECT * FROM holds_with_state
                WHERE (app_id, id) >= (\(app?.id), \(PushID.zero)) AND (app_id, id) < (\(app?.id), \(end))
                    AND (\(state)::text IS NULL OR state = \(state))
                ORDER BY app_id DESC, id DESC LIMIT \(limit + 1)
            ), over_apps AS (
                SELECT * FROM holds_with_state
                WHERE app_id IS NULL AND \(app?.id)::bigint IS NOT NULL AND (\(state)::text IS NULL OR state = \(state))
                    AND id < \(end)
                ORDER BY app_id DESC, id DESC LIMIT \(limit + 1)
            )
            SELECT * FROM operators UNION ALL SELECT * FROM own UNION ALL SELECT * FROM over_apps ORDER BY id DESC LIMIT \(limit + 1)
            """
        ).map { row in try Hold(row) }
        guard holds.count > limit else { return Page(holds: holds, last: nil) }
        holds.removeLast()
        return Page(holds: holds, last: holds.last?.id)
    }
}

extension Hold {
    /// - Parameter row: A row of the view `holds_with_state`.
    init(_ row: PostgresRow) throws {
        guard let scope = HoldScope(app: try row["app"], lane: try row["lane"], notification: try row["notification"]) else {
            throw CorruptRow(table: "holds")
        }
        let (liftedAt, liftedBy): (Int64?, String?) = (try row.milliseconds("lifted_at"), try row["lifted_by"])
        self.init(
            id: try row["id"], appID: try row["app_id"], scope: scope, reason: try row["reason"], setAt: try row.milliseconds("set_at"),
            setBy: try row["set_by"], endsAt: try row.milliseconds("ends_at"),
            lifting: liftedAt.flatMap { at in liftedBy.map { Lifting(at: at, by: $0) } }, state: try row["state"],
            publishedAt: try row.milliseconds("published_at"))
    }
}

extension Hold.State: PostgresEncodable, PostgresDecodable {}
