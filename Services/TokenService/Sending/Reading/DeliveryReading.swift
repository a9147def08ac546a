package import Postgres
package import PushModel
package import TokenServiceApps

/// The SQL that reads deliveries page by page.
package struct DeliveryReading {
    /// Deliveries that a page reads, at most.
    package static let scannedPerPage = 5000

    private let session: PostgresSession
    private let app: App

    package init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    /// Several statements: the transaction must be of isolation `.repeatableRead`.
    /// - Returns: nil where the app has no such notification.
    package func page(of list: DeliveryList, from position: DeliveryPlace?, limit: Int) throws -> DeliveryList.Page? {
        let notifications = try session.execute(
            "SELECT receipts FROM notifications WHERE app_id = \(app.id) AND id = \(list.notification)")
        guard let receipts: NotificationRequest.Receipts = try notifications.first?["receipts"] else { return nil }
        let start = position ?? .start
        let found: (rows: PostgresRows, end: DeliveryPlace?)
        if let installation = list.installation {
            let places = receipts == .all ? try members(at: installation, of: list.notification) : []
            found = (try session.execute(deliveries(to: installation, of: list, members: places, after: start, limit: limit)), nil)
        } else if receipts == .all {
            found = try nextJobs(of: list, after: start, limit: limit)
        } else {
            found = try nextReceipts(of: list, after: start, limit: limit)
        }
        let isFull = found.rows.count == limit
        return DeliveryList.Page(
            receipts: receipts, deliveries: try found.rows.map { row in try NotificationStatus.Delivery(row, token: row["token"]) },
            next: try isFull ? found.rows.last.map { row in try DeliveryPlace(row) } : found.end)
    }

    /// Every delivery has its place in a job: reads the next jobs, with the state of their members.
    /// - Returns: The rows, and the end of those jobs if others follow.
    private func nextJobs(
        of list: DeliveryList, after start: DeliveryPlace, limit: Int
    ) throws -> (rows: PostgresRows, end: DeliveryPlace?) {
        let next = start.job + Self.scannedPerPage / PushJob.maximumDeliveries
        let answers = try session.pipeline([
            """
            SELECT d.*, t.token
            FROM (
                SELECT number, "position" FROM deliveries
                WHERE notification = (SELECT id FROM notifications WHERE app_id = \(app.id) AND id = \(list.notification))
                    AND number >= \(start.job) AND number < \(next)
                    AND (number, "position") > (\(start.job), \(start.position))
                    AND (\(list.state?.text)::text IS NULL OR coalesce(class, 'pending') = \(list.state?.text))
                    AND (\(list.reason)::text IS NULL OR reason = \(list.reason))
                ORDER BY number, "position" LIMIT \(limit)
            ) AS place
            CROSS JOIN LATERAL (
                SELECT * FROM deliveries
                WHERE notification = (SELECT id FROM notifications WHERE app_id = \(app.id) AND id = \(list.notification))
                    AND number = place.number AND "position" = place."position" LIMIT 1
            ) AS d
            LEFT JOIN tokens t ON t.id = d.token_id
            ORDER BY d.number, d."position"
            """,
            """
            SELECT number FROM jobs WHERE notification = (SELECT id FROM notifications WHERE app_id = \(app.id)
                AND id = \(list.notification)) AND number >= \(next)
            UNION ALL
            SELECT number FROM receipts WHERE notification = (SELECT id FROM notifications WHERE app_id = \(app.id)
                AND id = \(list.notification)) AND number >= \(next) LIMIT 1
            """,
        ])
        return (answers[0], answers[1].isEmpty ? nil : .end(ofJob: next - 1))
    }

    /// Reads the next receipts: if only failures have receipts, most jobs have none.
    /// - Returns: The rows, and the last receipt that was read if others follow.
    private func nextReceipts(
        of list: DeliveryList, after start: DeliveryPlace, limit: Int
    ) throws -> (rows: PostgresRows, end: DeliveryPlace?) {
        let answers = try session.pipeline([
            """
            SELECT d.*, delivery_id(d.notification, d.number, d."position") AS id, t.token,
                reported_at(d.notification, d.number, d."position", 'shown') AS shown_at,
                reported_at(d.notification, d.number, d."position", 'opened') AS opened_at,
                reported_at(d.notification, d.number, d."position", 'dismissed') AS dismissed_at
            FROM (
                SELECT * FROM receipts
                WHERE notification = (SELECT id FROM notifications WHERE app_id = \(app.id) AND id = \(list.notification))
                    AND (number, "position") > (\(start.job), \(start.position))
                ORDER BY number, "position" LIMIT 5000
            ) AS d LEFT JOIN tokens t ON t.id = d.token_id
            WHERE (\(list.state?.text)::text IS NULL OR coalesce(d.class, 'pending') = \(list.state?.text))
                AND (\(list.reason)::text IS NULL OR d.reason = \(list.reason))
            ORDER BY d.number, d."position" LIMIT \(limit)
            """,
            """
            SELECT number, "position" FROM receipts
            WHERE notification = (SELECT id FROM notifications WHERE app_id = \(app.id) AND id = \(list.notification))
                AND (number, "position") > (\(start.job), \(start.position))
            ORDER BY number, "position" OFFSET 4999 LIMIT 1
            """,
        ])
        return (answers[0], try answers[1].first.map { row in try DeliveryPlace(row) })
    }

    /// The places of the tokens that the installation has now.
    private func members(at installation: PushID, of notification: PushID) throws -> [DeliveryPlace] {
        let tokens: [Int64] = try session.execute(
            "SELECT id FROM tokens WHERE app_id = \(app.id) AND installation = \(installation)"
        ).column("id")
        return try MemberSearch(session: session, app: app).places(of: Set(tokens), in: notification).map(\.place)
    }

    /// - Parameter members: Places of deliveries that may be under way without a receipt.
    private func deliveries(
        to installation: PushID, of list: DeliveryList, members: [DeliveryPlace], after start: DeliveryPlace, limit: Int
    ) -> PostgresQuery {
        """
        SELECT d.*, t.token
        FROM (
            SELECT number, "position" FROM receipts WHERE installation = \(installation)
                AND notification = (SELECT id FROM notifications WHERE app_id = \(app.id) AND id = \(list.notification))
            UNION
            SELECT * FROM unnest(\(members.map(\.job))::bigint[], \(members.map(\.position))::bigint[])
        ) AS place
        CROSS JOIN LATERAL (
            SELECT * FROM deliveries
            WHERE notification = (SELECT id FROM notifications WHERE app_id = \(app.id) AND id = \(list.notification))
                AND number = place.number AND "position" = place."position" LIMIT 1
        ) AS d
        LEFT JOIN tokens t ON t.id = d.token_id
        WHERE d.installation = \(installation) AND (d.number, d."position") > (\(start.job), \(start.position))
            AND (\(list.state?.text)::text IS NULL OR coalesce(d.class, 'pending') = \(list.state?.text))
            AND (\(list.reason)::text IS NULL OR d.reason = \(list.reason))
        ORDER BY d.number, d."position" LIMIT \(limit)
        """
    }
}

extension DeliveryPlace {
    /// - Parameter row: A row of `deliveries`.
    package init(_ row: PostgresRow) throws { self.init(job: try row["number"], position: try row["position"]) }
}

/// The place of a delivery among the jobs of its notification. It never changes, so lists go in this order.
package struct DeliveryPlace: Hashable, Sendable {
    /// The job's number, from 0.
    package var job: Int
    /// The member's place in its job, from 0.
    package var position: Int

    package init(job: Int, position: Int) {
        self.job = job
        self.position = position
    }

    /// The place before the first.
    package static let start = DeliveryPlace(job: 0, position: -1)

    /// The last that a job may have.
    static func end(ofJob job: Int) -> DeliveryPlace { DeliveryPlace(job: job, position: PushJob.maximumDeliveries - 1) }
}

/// Finds tokens among the members of a notification's jobs. They are compared here: PostgreSQL takes 4 µs for each token and job.
package struct MemberSearch {
    /// The first jobs of a notification, which a search reads.
    static let maximumJobs = 20_000
    /// Jobs that one statement reads: up to 800 kB.
    private static let jobsRead = 1000

    private let session: PostgresSession
    private let app: App

    package init(session: PostgresSession, app: App) {
        self.session = session
        self.app = app
    }

    package struct Found: Equatable, Sendable {
        package var place: DeliveryPlace
        package var token: Int64
    }

    /// - Returns: The places of these tokens, in order. A token may have several.
    package func places(of tokens: Set<Int64>, in notification: PushID) throws -> [Found] {
        guard !tokens.isEmpty else { return [] }
        var (found, last): ([Found], Int) = ([], -1)
        for _ in 0..<Self.maximumJobs / Self.jobsRead {
            let jobs = try session.execute(
                """
                SELECT number, members FROM jobs WHERE app_id = \(app.id) AND notification = \(notification) AND number > \(last)
                ORDER BY number LIMIT \(Self.jobsRead)
                """)
            for job in jobs {
                last = try job["number"]
                for (position, token) in Job.members(of: try job["members"]).enumerated() where tokens.contains(token) {
                    found.append(Found(place: DeliveryPlace(job: last, position: position), token: token))
                }
            }
            guard jobs.count == Self.jobsRead else { break }
        }
        return found
    }
}
