package import Postgres
package import PushModel
package import TokenServiceApps
package import TokenServiceKit

/// The SQL of what waits: which apps have work in which lanes and how much, and fan-outs themselves. Rows are locked in ascending order of
/// their keys, as everywhere, or passed over if they are locked.
/// It works for every app, and takes no id from a request.
package struct WaitingWorkStore {
    let session: PostgresSession

    package init(session: PostgresSession) { self.session = session }

    // MARK: What waits

    /// Jobs, or fan-outs, of an app in one lane. Times are UNIX milliseconds.
    package struct Waiting: Sendable {
        package var app: App.ID
        package var key: AppLane
        /// Since when the oldest one has been free; nil if processes have leases on all of them.
        package var free: Int64?
        /// The moment at which the oldest unfinished fan-out became due, under way or not.
        package var due: Int64?
    }

    /// - Returns: the moment of ``LowWater/clock`` before the search, and all apps and lanes that have free jobs.
    package func waitingJobs(from marks: LowWater<AppLane>.Marks = .init()) throws -> (now: Int64, found: [Waiting]) {
        let from = LowWater<AppLane>.Beginnings(marks)
        let (exceptions, moments) = (from.exceptions.map(\.key), from.exceptions.map(\.moment))
        let answers = try session.pipeline([
            LowWater<AppLane>.clock,
            """
            SELECT a.id, a.slug, l.lane, j.free_from
            FROM apps a CROSS JOIN unnest(\(Lane.allCases.map(\.rawValue))::text[]) AS l (lane)
            LEFT JOIN unnest(\(exceptions.map(\.app.text))::text[], \(exceptions.map(\.lane.rawValue))::text[],
                    \(milliseconds: moments)::timestamptz[]) AS x (app, lane, since) ON x.app = a.slug AND x.lane = l.lane
            CROSS JOIN LATERAL (
                SELECT free_from FROM jobs
                WHERE (published_at IS NULL) IS TRUE AND lane = l.lane AND app_id = a.id AND free_from <= now()
                    AND free_from >= coalesce(x.since, \(milliseconds: from.floor))
                ORDER BY free_from LIMIT 1
            ) AS j
            """,
        ])
        return (try answers[0].only().milliseconds("now"), try answers[1].map { row in try Waiting(row) })
    }

    /// - Parameter leaseSeconds: How long the lease of a process lasts that goes on with a fan-out.
    /// - Returns: the moment of ``LowWater/clock`` before the search, and all apps and lanes with fan-outs that are due or under way.
    package func waitingFanOuts(from marks: LowWater<AppLane>.Marks = .init(), leaseSeconds: Double = 0) throws -> (
        now: Int64, found: [Waiting]
    ) {
        let from = LowWater<AppLane>.Beginnings(marks)
        let (exceptions, moments) = (from.exceptions.map(\.key), from.exceptions.map(\.moment))
        let answers = try session.pipeline([
            LowWater<AppLane>.clock,
            """
            SELECT a.id, a.slug, l.lane, f.free_from, f.due
            FROM apps a CROSS JOIN unnest(\(Lane.allCases.map(\.rawValue))::text[]) AS l (lane)
            LEFT JOIN unnest(\(exceptions.map(\.app.text))::text[], \(exceptions.map(\.lane.rawValue))::text[],
                    \(milliseconds: moments)::timestamptz[]) AS x (app, lane, since) ON x.app = a.slug AND x.lane = l.lane
            CROSS JOIN LATERAL (
                SELECT min(free_from) FILTER (WHERE free_from <= now()) AS free_from, min(due_at) FILTER (WHERE due_at <= now()) AS due
                FROM (
                    SELECT free_from, due_at FROM fan_outs
                    WHERE (free_from IS NOT NULL) IS TRUE AND lane = l.lane AND app_id = a.id
                        AND free_from <= now() + make_interval(secs => \(leaseSeconds))
                        AND free_from >= coalesce(x.since, \(milliseconds: from.floor))
                    ORDER BY free_from LIMIT 1000
                ) AS unfinished
            ) AS f
            WHERE num_nonnulls(f.free_from, f.due) > 0
            """,
        ])
        return (try answers[0].only().milliseconds("now"), try answers[1].map { row in try Waiting(row, due: row.milliseconds("due")) })
    }

    /// How many notifications of an app wait in a lane now to be published or fanned out, those under way included; of each kind counted no
    /// further than `limit`. One that is due later does not wait, and a fan-out's jobs count as one.
    /// - Parameters:
    ///   - jobs: No older job is free: UNIX milliseconds. See ``LowWater``.
    ///   - fanOuts: The same of fan-outs.
    ///   - leaseSeconds: The lease of a process that publishes a job or goes on with a fan-out.
    package func backlog(of key: AppLane, jobs: Int64 = 0, fanOuts: Int64 = 0, limit: Int, leaseSeconds: Double) throws -> Int {
        let rows = try session.execute(
            """
            SELECT j.count + f.count AS waiting
            FROM apps a
            CROSS JOIN LATERAL (
                SELECT count(*) FROM (
                    -- Before the limit: a fan-out's other jobs would hide the rest.
                    SELECT FROM jobs
                    WHERE (published_at IS NULL) IS TRUE AND lane = \(key.lane) AND app_id = a.id AND free_from >= \(milliseconds: jobs)
                        AND free_from <= now() + make_interval(secs => \(leaseSeconds)) AND least(number, 1) = 0
                        AND due_at <= now() + interval '1 second'
                    LIMIT \(limit)
                ) AS found
            ) AS j
            CROSS JOIN LATERAL (
                SELECT count(*) FROM (
                    SELECT FROM fan_outs
                    WHERE (free_from IS NOT NULL) IS TRUE AND lane = \(key.lane) AND app_id = a.id AND free_from >= \(milliseconds: fanOuts)
                        AND free_from <= now() + make_interval(secs => \(leaseSeconds)) AND due_at <= now()
                    LIMIT \(limit)
                ) AS found
            ) AS f
            WHERE a.slug = \(key.app)
            """)
        guard let row = rows.first else { return 0 }
        return try row["waiting"]
    }

    /// A share of the free work of one app, for a process that takes some of every app's.
    package struct Share: Sendable {
        package var app: App.ID
        /// No older work is free.
        package var from: Int64

        package init(app: App.ID, from: Int64) {
            self.app = app
            self.from = from
        }

        /// How many each app may have if all together have `count`.
        package static func size(_ count: Int, among apps: Int) -> Int { (count + apps - 1) / max(1, apps) }
    }

    /// What processes have recorded: see ``LowWater``. Locks it.
    package func lowWater() throws -> [OutboxMarks.Kind: LowWaterRecord] {
        var marks: [OutboxMarks.Kind: LowWaterRecord] = [:]
        let rows = try session.execute(
            """
            SELECT kind, least(at, now() - interval '1 minute') AS at, least(most_at, now() - interval '1 minute') AS most_at
            FROM low_water ORDER BY kind FOR NO KEY UPDATE
            """)
        for row in rows {
            guard let kind = OutboxMarks.Kind(rawValue: try row["kind"]) else { continue }
            marks[kind] = LowWaterRecord(at: try row.milliseconds("at"), mostAt: try row.milliseconds("most_at"))
        }
        return marks
    }

    package func record(lowWater marks: [OutboxMarks.Kind: LowWaterRecord]) throws {
        let marks = marks.sorted { $0.key.rawValue < $1.key.rawValue }
        let (ats, mostAts) = (marks.map(\.value.at), marks.map(\.value.mostAt))
        try session.execute(
            """
            INSERT INTO low_water (kind, at, most_at)
            SELECT * FROM unnest(\(marks.map(\.key.rawValue))::text[], \(milliseconds: ats)::timestamptz[],
                \(milliseconds: mostAts)::timestamptz[]) AS e (kind, at, most_at)
            ON CONFLICT (kind) DO UPDATE SET at = excluded.at, most_at = excluded.most_at
            """)
    }

    // MARK: Fan-outs

    /// Takes over fan-outs of a lane on which no process has a lease: of each app no more than its share.
    /// - Parameter shares: The shares in the order in which apps are served.
    package func claimFanOuts(_ count: Int, of lane: Lane, among shares: [Share], leaseSeconds: Double) throws
        -> [(notification: PushID, app: App.ID)]
    {
        guard count > 0, !shares.isEmpty else { return [] }
        return try session.execute(
            """
            WITH found AS (
                SELECT f.notification
                FROM unnest(\(shares.map(\.app))::bigint[], \(milliseconds: shares.map(\.from))::timestamptz[]) AS w (app, since)
                CROSS JOIN LATERAL (
                    SELECT notification FROM fan_outs
                    WHERE (free_from IS NOT NULL) IS TRUE AND lane = \(lane) AND app_id = w.app AND free_from >= w.since
                        AND free_from <= now()
                    ORDER BY free_from LIMIT \(Share.size(count, among: shares.count)) FOR NO KEY UPDATE SKIP LOCKED
                ) AS f LIMIT \(count)
            )
            UPDATE fan_outs o SET free_from = now() + make_interval(secs => \(leaseSeconds)) FROM found f
            WHERE o.notification = f.notification RETURNING o.notification, o.app_id
            """
        ).map { row in (try row["notification"], try row["app_id"]) }
    }

    /// Any process may go on with these fan-outs, a moment later.
    package func release(_ ids: [PushID]) throws {
        guard !ids.isEmpty else { return }
        try session.execute(
            """
            WITH locked AS (
                SELECT f.notification FROM unnest(\(ids)::uuid[]) AS e (id) JOIN fan_outs f ON f.notification = e.id
                WHERE f.free_from IS NOT NULL ORDER BY f.notification FOR NO KEY UPDATE OF f
            )
            UPDATE fan_outs f SET free_from = now() + interval '1 second' FROM locked l WHERE f.notification = l.notification
            """)
    }

    /// Finds the claimed fan-outs that supersede older notifications: by a key, or as the newest state of a Live Activity or a channel.
    package func superseding(_ ids: [PushID]) throws -> Set<PushID> {
        let found: [PushID] = try session.execute(
            """
            SELECT n.id FROM unnest(\(ids)::uuid[]) AS e (id) JOIN notifications n ON n.id = e.id
            WHERE n.supersede_key IS NOT NULL OR n.purpose LIKE 'activity:%' OR n.purpose LIKE 'channel:%'
            """
        ).column("id")
        return Set(found)
    }
}

extension WaitingWorkStore.Waiting {
    fileprivate init(_ row: PostgresRow, due: Int64? = nil) throws {
        self.init(
            app: try row["id"], key: AppLane(app: try row["slug"], lane: try row["lane"]), free: try row.milliseconds("free_from"), due: due
        )
    }
}

/// An app's work in one lane: it has its own limit and its own share.
package struct AppLane: Hashable, Sendable {
    package var app: AppSlug
    package var lane: Lane

    package init(app: AppSlug, lane: Lane) {
        self.app = app
        self.lane = lane
    }
}

extension JobTemplate {
    var appLane: AppLane { AppLane(app: app, lane: lane) }
}
