import APNsSimulator
import Postgres
import PushModel
import Testing

/// A large number of devices, written straight into the tables as registrations would do.
struct LargeAudience {
    let platform: Platform
    let count: Int

    /// - Parameter platform: Its token service has made the tables, and the app of ``Client`` in them.
    static func register(_ count: Int, on platform: Platform) async throws -> LargeAudience {
        let step = 4_000
        for first in stride(from: 0, to: count, by: step) {
            let end = min(first + step, count)
            try await platform.database.session { session in try session.simple(fill(from: first, to: end)) }
        }
        return LargeAudience(platform: platform, count: count)
    }

    private static func fill(from first: Int, to end: Int) -> String {
        """
        WITH device AS (
            SELECT n, encode(substr(sha256(int8send(n)), 1, 16), 'hex')::uuid AS id, sha256(int8send(-n)) AS token,
                (SELECT id FROM apps WHERE slug = '\(Client.app)') AS app
            FROM generate_series(\(first + 1)::bigint, \(end)) AS n
        ), installed AS (
            INSERT INTO installations (app_id, id, owner, created_at, registered_at)
            SELECT app, id, 'user-' || n, now(), now() FROM device RETURNING id, ordinal
        )
        INSERT INTO tokens (app_id, environment, purpose, token, installation, ordinal, registered_at)
        SELECT app, 'production', 'alert', token, id, ordinal, now() FROM device JOIN installed USING (id)
        """
    }

    /// Every device's token, in hex.
    func tokens() async throws -> Set<String> {
        try await platform.database.session { session in
            Set(try session.execute("SELECT encode(token, 'hex') AS token FROM tokens").column("token"))
        }
    }

    /// The progress of a fan-out in the database.
    struct Progress {
        /// The number of jobs so far, and how many of them are not published yet.
        var jobs: Int
        var unpublished: Set<Int>
        var isFannedOut: Bool
    }

    func progress(of notification: String) async throws -> Progress {
        return try await platform.database.session { session in
            let row = try session.execute(
                """
                SELECT jobs, ended_at IS NOT NULL AS is_fanned_out FROM notifications JOIN fan_outs ON notification = id
                WHERE id = \(notification)::text::uuid
                """
            ).only()
            let unpublished: [Int] = try session.execute(
                "SELECT number FROM jobs WHERE notification = \(notification)::text::uuid AND published_at IS NULL"
            ).column("number")
            return Progress(jobs: try row["jobs"], unpublished: Set(unpublished), isFannedOut: try row["is_fanned_out"])
        }
    }

    /// Ends the leases of a dead process now and not half a minute later.
    func expireLeases() async throws {
        try await platform.database.transaction { session in
            try session.execute("UPDATE jobs SET free_from = now() WHERE published_at IS NULL")
            try session.execute("UPDATE fan_outs SET free_from = now() WHERE free_from IS NOT NULL")
        }
    }

    /// The journal that a simulator writes to `file`: how often each delivery arrived, by its id and its token.
    static func arrivals(journal file: String) throws -> [Client.Arrival: Int] {
        var reader = try JournalFileReader(path: file)
        var arrivals: [Client.Arrival: Int] = [:]
        while let entry = try reader.next() {
            let arrival = Client.Arrival(token: entry.token ?? "", apnsID: entry.apnsID.lowercased(), status: Int64(entry.status ?? 0))
            arrivals[arrival, default: 0] += 1
        }
        return arrivals
    }
}

extension LargeAudience {
    struct Counts {
        var total: Int
        var pending: Int
        var byClass: [String: Int]
    }

    func counts(of notification: String) async throws -> Counts {
        return try await platform.database.session { session in
            let row = try session.execute("SELECT total, pending FROM notifications WHERE id = \(notification)::text::uuid").only()
            var byClass: [String: Int] = [:]
            let counts = try session.execute(
                """
                SELECT o.class, sum(o.count)::bigint AS count FROM notifications n CROSS JOIN LATERAL unnest(n.outcomes) AS o
                WHERE n.id = \(notification)::text::uuid GROUP BY o.class
                """)
            for count in counts { byClass[try count["class"]] = try count["count"] as Int }
            return Counts(total: try row["total"], pending: try row["pending"], byClass: byClass)
        }
    }
}
