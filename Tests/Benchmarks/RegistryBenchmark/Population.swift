import OpenSSL
import PushModel

/// The installations of the benchmark. Id, token and user follow from an installation's number, here and in SQL, so that a request can name
/// rows of the database. Ids and tokens are digests, because real ones have no order either.
enum Population {
    static let app = "bench"
    /// A user has a telephone and a tablet.
    static let installationsPerUser = 2

    static func installation(_ number: Int) -> PushID {
        PushID(bytes: Digest.sha256(bytes(UInt64(number))).prefix(16)) ?? PushID(high: 0, low: UInt64(number))
    }

    static func token(_ number: Int) -> String { hexText(Digest.sha256(bytes(UInt64(number) | 1 << 62))) }
    static func user(of number: Int) -> String { "user-\(number / installationsPerUser)" }

    /// The body of its registration, always the same; with `id` a line of an import.
    static func body(_ number: Int, id: Bool = false, user: String? = nil, token: String? = nil) -> String {
        (id ? #"{"id":"\#(installation(number))","# : "{")
            + #""user":"\#(user ?? self.user(of: number))","tokens":[{"token":"\#(token ?? self.token(number))"}],"locale":"de_AT","#
            + #""time_zone":"Europe/Vienna","app_version":"4.11.0","os_version":"18.5","device_model":"iPhone15,4"}"#
    }

    /// Fills the tables from number `first` to below `end`, as registrations would have. `$app` stands for the app's id.
    static func fill(from first: Int, to end: Int, app: Int) -> String {
        """
        INSERT INTO installations (app_id, id, owner, locale, time_zone, app_version, os_version, device_model, created_at, registered_at)
        SELECT \(app), \(idSQL("n")), 'user-' || n / \(installationsPerUser), 'de_AT', 'Europe/Vienna', '4.11.0', '18.5', 'iPhone15,4',
            now(), now()
        FROM generate_series(\(first)::bigint, \(end - 1)) AS n;
        INSERT INTO tokens (app_id, environment, purpose, token, installation, ordinal, registered_at)
        SELECT \(app), 'production', 'alert', \(tokenSQL("n")), i.id, i.ordinal, now()
        FROM generate_series(\(first)::bigint, \(end - 1)) AS n
        JOIN installations i ON i.app_id = \(app) AND i.id = \(idSQL("n")) ORDER BY n;
        """
    }

    static func idSQL(_ number: String) -> String { "encode(substr(sha256(int8send(\(number)::bigint)), 1, 16), 'hex')::uuid" }
    static func tokenSQL(_ number: String) -> String { "sha256(int8send(\(number)::bigint | (1::bigint << 62)))" }

    private static func bytes(_ number: UInt64) -> [UInt8] { (0..<8).map { UInt8(truncatingIfNeeded: number >> UInt64(56 - 8 * $0)) } }
}

/// The least work of the database, as pgbench scripts.
enum BareSQL {
    /// A refresh: the row of the installation and the row of its token, found by their keys.
    static func refresh(app: Int, population: Int) -> String {
        """
        \\set n random(0, \(population - 1))
        BEGIN;
        UPDATE installations SET registered_at = now() WHERE app_id = \(app) AND id = \(Population.idSQL(":n"));
        UPDATE tokens SET registered_at = now()
        WHERE app_id = \(app) AND environment = 'production' AND purpose = 'alert' AND token = \(Population.tokenSQL(":n"));
        COMMIT;
        """
    }

    /// The installations of a user in an answer, in one query.
    static func read(app: Int, population: Int) -> String {
        """
        \\set n random(0, \(population / Population.installationsPerUser - 1))
        SELECT i.id, i.owner, i.owner_epoch, i.throttled_until, i.registered_at, i.created_at, i.locale, i.time_zone, i.app_version,
            i.os_version, i.device_model, i.tags, t.token, t.environment, t.purpose, t.registered_at, t.retired_at, t.retired_reason,
            (SELECT count(*) FROM fences f WHERE f.app_id = i.app_id AND f.installation = i.id)
        FROM installations i LEFT JOIN tokens t ON t.app_id = i.app_id AND t.installation = i.id
        WHERE i.app_id = \(app) AND i.owner = 'user-' || :n ORDER BY i.id LIMIT 100;
        """
    }
}
