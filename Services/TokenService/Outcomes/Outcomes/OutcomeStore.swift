package import Postgres
package import PushModel
import TokenServiceKit
package import TokenServiceRegistry
import TokenServiceSending

/// The SQL that outcomes need, within one transaction.
/// It works for every app: an outcome names its deliveries itself, and no request does.
package struct OutcomeStore {
    let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    /// A delivery that has its final outcome from now on.
    package struct Finished: Sendable {
        package let id: PushID
        package let notification: PushID
        package let app: Int64
        package let token: Int64
        package let outcome: OutcomeClass
        /// APNs' status; nil if APNs was not asked or did not answer.
        let status: Int?
        /// APNs' word, or ours.
        let reason: String?
        /// The one that answered.
        package let environment: APNsEnvironment
        /// APNs has accepted the token nowhere yet.
        package let isUnproven: Bool
        /// When the request left for APNs, as far as that is known. UNIX milliseconds.
        let sentAt: Int64
    }

    /// The facts about a notification that a batch needs.
    package struct Origin: Sendable {
        package let app: Int64
        /// A receipt for every delivery, or for all but plain acceptances.
        package let keepsAll: Bool
        /// The Live Activity or the channel that it updates.
        package let updates: UpdateTarget.Key?
        /// It starts a Live Activity of which devices report an update token: it names no channel to follow.
        let isStart: Bool
    }

    /// The notifications of a batch that still exist.
    package func origins(of batch: OutcomeBatch) throws -> [PushID: Origin] {
        let notifications = Tally(batch.final.lazy.map(\.delivery.notification))
            .adding(batch.attempts.lazy.map(\.delivery.notification)).counts.keys.sorted()
        guard !notifications.isEmpty else { return [:] }
        var origins: [PushID: Origin] = [:]
        let rows = try session.execute(
            """
            SELECT n.id, n.app_id, n.receipts = 'all' AS keeps_all, n.purpose, n.target_user, n.target_installation,
                CASE WHEN n.purpose LIKE 'activity_start:%'
                    THEN position('"input-push-channel"'::bytea IN n.payload) = 0 ELSE false END AS is_start
            FROM unnest(\(notifications)::uuid[]) AS e (id) JOIN notifications n ON n.id = e.id
            """)
        for row in rows {
            origins[try row["id"]] = Origin(
                app: try row["app_id"], keepsAll: try row["keeps_all"], updates: try UpdateTarget.Key(row), isStart: try row["is_start"])
        }
        return origins
    }

    /// The entries that name a delivery of a notification that still exists: an id names its place, and belongs to one notification.
    package static func known(_ entries: [OutcomeBatch.Entry], _ origins: [PushID: Origin]) -> [OutcomeBatch.Entry] {
        var names = DeliveryNames(.lowest)
        return entries.filter { entry in
            let delivery = entry.delivery
            guard origins[delivery.notification] != nil else { return false }
            if names.notification != delivery.notification { names = DeliveryNames(delivery.notification) }
            let place = DeliveryNames.place(of: delivery.id)
            return place.position < PushJob.maximumDeliveries && names.id(job: place.job, position: place.position) == delivery.id
        }
    }

    /// Applies final outcomes: the bits in the jobs, and receipts.
    /// - Parameter known: Final outcomes in ascending order of id.
    /// - Returns: The deliveries that had no final outcome before.
    package func finish(_ known: [OutcomeBatch.Entry], of origins: [PushID: Origin]) throws -> [Finished] {
        guard !known.isEmpty else { return [] }
        var ends = try markFinal(known)
        if ends.count < known.count {
            let ended = Set(ends.lazy.map(\.entry.delivery.id))
            ends += try finishReplayed(known.filter { !ended.contains($0.delivery.id) })
        }
        let tokens = try writeReceipts(of: ends, origins)
        return ends.map { end in
            let delivery = end.entry.delivery
            return Finished(
                id: delivery.id, notification: delivery.notification, app: origins[delivery.notification]?.app ?? 0, token: end.token,
                outcome: end.entry.outcome, status: delivery.status, reason: delivery.reason,
                environment: delivery.environment ?? end.environment, isUnproven: tokens[end.token] == .unproven,
                sentAt: delivery.sentAt ?? end.entry.time)
        }
    }

    /// How deliveries of one notification ended.
    private struct Ending: Hashable, Comparable {
        let notification: PushID
        let outcome: OutcomeClass
        let status: Int?
        let reason: String?

        static func < (left: Ending, right: Ending) -> Bool {
            (left.notification, left.outcome.rawValue, left.status ?? 0, left.reason ?? "") < (
                right.notification, right.outcome.rawValue, right.status ?? 0, right.reason ?? ""
            )
        }
    }

    /// Counts outcomes in their notifications, and ends those that have all of them. The decision needs no receipt: it costs the same for
    /// one delivery and for ten million.
    /// - Returns: the notifications that have all their outcomes now.
    package func countInNotifications(_ finished: [Finished]) throws -> [PushID] {
        guard !finished.isEmpty else { return [] }
        let counts = Tally(
            finished.lazy.map { Ending(notification: $0.notification, outcome: $0.outcome, status: $0.status, reason: $0.reason) }
        ).counts
        let endings = counts.keys.sorted()
        let ids = Set(endings.lazy.map(\.notification)).sorted()
        try session.execute(
            """
            SELECT FROM unnest(\(ids)::uuid[]) AS e (id) JOIN notifications n ON n.id = e.id ORDER BY n.id FOR NO KEY UPDATE OF n
            """)
        let rows = try session.execute(
            """
            UPDATE notifications n SET pending = n.pending - e.count,
                outcomes = CASE WHEN cardinality(n.outcomes) = 0 AND cardinality(e.outcomes) <= 50 THEN e.outcomes
                    ELSE with_outcomes(n.outcomes, e.outcomes) END,
                -- While fan-out makes its jobs more may come, and its last step completes it.
                state = CASE WHEN n.pending > e.count OR n.state <> 'sending' THEN n.state
                    WHEN are_unsent(e.outcomes) AND are_unsent(n.outcomes) THEN 'expired' ELSE 'completed' END,
                completed_at = CASE WHEN n.pending = e.count AND n.state <> 'expanding' THEN now() END
            FROM (
                SELECT id, sum(count)::bigint AS count, array_agg(ROW(class, status::smallint, reason, count)::outcome_count) AS outcomes
                FROM unnest(\(endings.map(\.notification))::uuid[], \(endings.map(\.outcome.rawValue))::text[],
                        \(endings.map(\.status))::bigint[], \(endings.map(\.reason))::text[],
                        \(endings.map { counts[$0] ?? 0 })::bigint[])
                    AS c (id, class, status, reason, count)
                GROUP BY id
            ) AS e
            WHERE n.id = e.id RETURNING n.id, n.pending = 0 AND n.state <> 'expanding' AS has_ended
            """)
        return try rows.compactMap { row in try row["has_ended"] ? try row["id"] : nil }
    }

    /// Adds to the apps' counts per minute, which the brakes use.
    package func count(_ finished: [Finished]) throws {
        guard !finished.isEmpty else { return }
        let counts = Tally(finished.lazy.map { Key(app: $0.app, outcome: $0.outcome) }).counts
        let keys = counts.keys.sorted { ($0.app, $0.outcome.rawValue) < ($1.app, $1.outcome.rawValue) }
        try session.execute(
            """
            INSERT INTO outcome_counts AS c (app_id, minute, class, count)
            SELECT app_id, date_trunc('minute', now()), class, count
            FROM unnest(\(keys.map(\.app))::bigint[], \(keys.map(\.outcome.rawValue))::text[], \(keys.map { counts[$0] ?? 0 })::bigint[])
                AS e (app_id, class, count)
            ON CONFLICT (app_id, minute, class) DO UPDATE SET count = c.count + excluded.count
            """)
    }

    private struct Key: Hashable {
        var app: Int64
        var outcome: OutcomeClass
    }
}

// MARK: Throttling

extension OutcomeStore {
    /// Locks the installations, before the transaction changes any of them, or of their tokens' places.
    package func lockInstallations(of entries: [OutcomeBatch.Entry], _ origins: [PushID: Origin]) throws {
        guard !entries.isEmpty else { return }
        let apps = entries.map { origins[$0.delivery.notification]?.app ?? 0 }
        try session.execute(
            """
            SELECT FROM installations
            WHERE (app_id, id) IN (SELECT * FROM unnest(\(apps)::bigint[], \(entries.map(\.delivery.installation))::uuid[]))
            ORDER BY app_id, id FOR NO KEY UPDATE
            """)
    }

    /// Writes a line of history only if the installation was not throttled already.
    /// - Returns: how many installations wait longer than they did.
    package func throttle(_ entries: [OutcomeBatch.Entry]) throws -> Int {
        guard !entries.isEmpty else { return 0 }
        let deliveries = entries.map(\.delivery)
        let places = deliveries.map { DeliveryNames.place(of: $0.id) }
        return try session.execute(
            """
            WITH wanted AS (
                SELECT DISTINCT ON (n.app_id, u.installation) n.app_id, member_at(j.members, u.position) AS token_id, u.*
                FROM unnest(\(deliveries.map(\.id))::uuid[], \(deliveries.map(\.notification))::uuid[], \(places.map(\.job))::bigint[],
                        \(places.map(\.position))::int[], \(deliveries.map(\.installation))::uuid[],
                        \(milliseconds: deliveries.map(\.retryAt))::timestamptz[], \(deliveries.map(\.status))::bigint[],
                        \(deliveries.map(\.reason))::text[])
                    AS u (id, notification, number, position, installation, until, status, reason)
                JOIN notifications n ON n.id = u.notification
                JOIN jobs j ON j.notification = u.notification AND j.number = u.number
                ORDER BY n.app_id, u.installation, u.until DESC
            ), noted AS (
                UPDATE installations i SET throttled_until = w.until
                -- A dispatcher's clock may be ahead, and none waits for longer than an hour.
                FROM (SELECT app_id, installation, token_id, id, status, reason, least(until, now() + interval '1 hour') AS until
                    FROM wanted) w
                WHERE i.app_id = w.app_id AND i.id = w.installation AND i.deregistered_at IS NULL
                    AND (i.throttled_until IS NULL OR i.throttled_until < w.until)
                RETURNING w.*
            ), recorded AS (
                INSERT INTO installation_history (app_id, installation, at, event, token_id, token_hint, environment, purpose,
                    status, reason, delivery)
                SELECT w.app_id, w.installation, now(), 'throttled', t.id, '…' || right(encode(t.token, 'hex'), 6), t.environment,
                    t.purpose,
                    w.status::smallint, w.reason, w.id
                FROM noted w JOIN installations before ON before.app_id = w.app_id AND before.id = w.installation
                LEFT JOIN tokens t ON t.id = w.token_id
                WHERE before.throttled_until IS NULL OR before.throttled_until <= now()
            )
            SELECT count(*) AS throttled FROM noted
            """
        ).only()["throttled"]
    }
}

/// A bit in the job marks a delivery that has its outcome, so that an event that comes again changes nothing.
extension OutcomeStore {
    /// A final outcome that counts, and the token that its delivery was for.
    struct End {
        let entry: OutcomeBatch.Entry
        let token: Int64
        /// The environment that the token was registered for when the delivery was made.
        let environment: APNsEnvironment
        /// A replay had reopened it: its receipt is locked, and ends it.
        var isReplayed = false
    }

    /// A batch's outcomes of one job.
    private struct JobMarks {
        let job: JobID
        /// The entry for each position; -1 if there is none.
        var places = [Int](repeating: -1, count: PushJob.maximumDeliveries)

        /// The mask as PostgreSQL writes `bit(100)`: the first position first.
        var mask: String { String(decoding: places.map { $0 < 0 ? UInt8(ascii: "0") : UInt8(ascii: "1") }, as: UTF8.self) }
    }

    /// - Parameter entries: Final outcomes in ascending order of id, and so job by job.
    /// - Returns: The deliveries that had no final outcome before.
    func markFinal(_ entries: [OutcomeBatch.Entry]) throws -> [End] {
        var marks: [JobMarks] = []
        var indices: [JobID: Int] = [:]
        var last = 0
        for index in entries.indices {
            let place = DeliveryNames.place(of: entries[index].delivery.id)
            let job = JobID(notification: entries[index].delivery.notification, number: place.job)
            if marks.isEmpty || marks[last].job != job {
                last = indices[job] ?? marks.count
                if last == marks.count {
                    marks.append(JobMarks(job: job))
                    indices[job] = last
                }
            }
            marks[last].places[place.position] = index
        }
        let rows = try session.execute(
            """
            WITH locked AS (
                SELECT j.notification, j.number, j.ended, j.sandbox, j.members, e.mask::bit(100) AS mask
                FROM unnest(\(marks.map(\.job.notification))::uuid[], \(marks.map(\.job.number))::bigint[],
                    \(marks.map(\.mask))::text[])
                    AS e (notification, number, mask)
                JOIN jobs j ON j.notification = e.notification AND j.number = e.number
                ORDER BY j.notification, j.number FOR NO KEY UPDATE OF j
            ), changed AS (
                UPDATE jobs j SET ended = l.ended | l.mask FROM locked l
                WHERE j.notification = l.notification AND j.number = l.number AND (l.mask & ~l.ended) <> B'0'::bit(100)
            )
            SELECT notification, number, (mask & ~ended)::text AS fresh, sandbox::text AS sandbox, members FROM locked
            """)
        var ends: [End] = []
        ends.reserveCapacity(entries.count)
        for row in rows {
            let (number, fresh): (Int32, String) = (try row["number"], try row["fresh"])
            guard let index = indices[JobID(notification: try row["notification"], number: Int(number))] else { continue }
            let members = Job.members(of: try row["members"])
            let sandbox = Job.positions(in: try row["sandbox"])
            for (position, bit) in fresh.utf8.enumerated() where bit == UInt8(ascii: "1") && position < members.count {
                let place = marks[index].places[position]
                guard place >= 0 else { continue }
                ends.append(
                    End(
                        entry: entries[place], token: members[position],
                        environment: sandbox.contains(position) ? .sandbox : .production))
            }
        }
        return ends
    }

    /// Locks the jobs of these entries: attempts are noted in receipts, and a job is locked before its receipts.
    package func lockJobs(of entries: [OutcomeBatch.Entry]) throws {
        guard !entries.isEmpty else { return }
        let jobs = Set(entries.map { JobID(notification: $0.delivery.notification, number: DeliveryNames.place(of: $0.delivery.id).job) })
        let (notifications, numbers) = (jobs.map(\.notification), jobs.map(\.number))
        try session.execute(
            """
            SELECT FROM unnest(\(notifications)::uuid[], \(numbers)::bigint[]) AS e (notification, number)
            JOIN jobs j ON j.notification = e.notification AND j.number = e.number
            ORDER BY j.notification, j.number FOR NO KEY UPDATE OF j
            """)
    }
}

/// The brake's counters, and the tokens that it puts into quarantine. ``RegistryBatch`` decides about the tokens.
extension OutcomeStore {
    /// Tokens that one transaction puts into quarantine at most, so that it stays short.
    package static let maximumQuarantined = 5000

    /// Locks the apps' brakes: only one batch at a time judges the rejections of one app, in any process. Else two batches could each stay
    /// below the limit without the other's count, or one could retire tokens that the other has just found to be rejected unjustly.
    /// - Returns: the apps, in ascending order.
    package func lockBrakes(of entries: [OutcomeBatch.Entry]) throws -> [Int64] {
        guard !entries.isEmpty else { return [] }
        let notifications = Set(entries.map(\.delivery.notification)).sorted()
        let apps: [Int64] = try session.execute(
            """
            SELECT DISTINCT n.app_id FROM unnest(\(notifications)::uuid[]) AS e (id) JOIN notifications n ON n.id = e.id ORDER BY n.app_id
            """
        ).column("app_id")
        try lockBrakes(of: apps)
        return apps
    }

    package func lockBrakes(of apps: [Int64]) throws {
        guard !apps.isEmpty else { return }
        // The key's first half is the word "brak": no other advisory lock of ours has two halves.
        try session.execute(
            """
            SELECT count(pg_advisory_xact_lock(1651662187, (app % 2147483647)::int))
            FROM (SELECT app FROM unnest(\(apps)::bigint[]) AS app ORDER BY app) AS ordered
            """)
    }

    package func brakes(of apps: [Int64]) throws -> [Int64: RejectionBrake] {
        guard !apps.isEmpty else { return [:] }
        var brakes: [Int64: RejectionBrake] = [:]
        let windows = try session.execute(
            """
            SELECT app_id, sum(count)::bigint AS finished,
                (coalesce(sum(count) FILTER (WHERE class = 'token_rejected'), 0))::bigint AS rejected
            FROM outcome_counts
            WHERE app_id = ANY (\(apps)) AND minute > now() - make_interval(mins => \(RejectionBrake.windowMinutes)::int) GROUP BY app_id
            """)
        for row in windows { brakes[try row["app_id"]] = RejectionBrake(finished: try row["finished"], rejected: try row["rejected"]) }
        return brakes
    }

    func slugs(of apps: [Int64]) throws -> [Int64: AppSlug] {
        guard !apps.isEmpty else { return [:] }
        let rows = try session.execute("SELECT id, slug FROM apps WHERE id = ANY (\(apps))")
        return Dictionary(uniqueKeysWithValues: try rows.map { row in (try row["id"] as Int64, try row["slug"] as AppSlug) })
    }

    /// Tokens that were retired as rejected in the brake's window and are not in quarantine yet; at most ``maximumQuarantined``.
    package func retiredInWindow(of apps: [Int64]) throws -> [Int64] {
        guard !apps.isEmpty else { return [] }
        return try session.execute(
            """
            SELECT id FROM tokens
            WHERE app_id = ANY (\(apps)) AND retired_reason = 'rejected'
                AND retired_at > now() - make_interval(mins => \(RejectionBrake.windowMinutes)::int) AND quarantined_at IS NULL
            ORDER BY app_id, retired_at LIMIT \(Self.maximumQuarantined)
            """
        ).column("id")
    }
}
