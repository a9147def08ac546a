import Postgres
import PushModel

extension KeyStore {
    static func words(_ scopes: Set<Scope>) -> [String] { Scope.allCases.filter(scopes.contains).map(\.rawValue) }
    static func scopes(_ words: [String]) -> Set<Scope> { Set(words.compactMap(Scope.init(rawValue:))) }

    static func key(_ row: PostgresRow) throws -> APIKey {
        guard let state = APIKey.State(rawValue: try row.text(10)) else { throw CorruptRow(table: "api_keys") }
        return APIKey(
            id: try row.text(0), app: try row.optionalText(1).flatMap { AppSlug($0) }, name: try row.text(2),
            scopes: scopes(try row.textArray(3)), createdAt: try row.timestampMilliseconds(4),
            expiresAt: try row.optionalTimestampMilliseconds(5), revokedAt: try row.optionalTimestampMilliseconds(6),
            lastUsedAt: try row.optionalTimestampMilliseconds(7), rotatedFrom: try row.optionalText(8),
            requestsPerSecond: try row.optionalInt32(9).map { Int($0) }, state: state)
    }

    static let insert: PostgresStatement = """
        INSERT INTO api_keys (id, secret_sha256, app_id, name, scopes, expires_at, requests_per_second)
        VALUES ($1, $2, $3, $4, $5, $6, $7)
        """
    static let insertBootstrap: PostgresStatement = """
        INSERT INTO api_keys (id, secret_sha256, app_id, name, scopes) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id) DO NOTHING
        """
    static let select: PostgresStatement = """
        SELECT k.id, a.slug, k.name, k.scopes, k.created_at, k.expires_at, k.revoked_at, k.last_used_at, k.rotated_from,
            k.requests_per_second,
            CASE WHEN k.revoked_at IS NOT NULL THEN 'revoked' WHEN k.expires_at <= now() THEN 'expired'
                WHEN k.expires_at <= now() + interval '30 days' THEN 'expiring' ELSE 'live' END
        FROM api_keys k LEFT JOIN apps a ON a.id = k.app_id WHERE k.id = $1
        """
    static let selectAll: PostgresStatement = """
        SELECT k.id, a.slug, k.name, k.scopes, k.created_at, k.expires_at, k.revoked_at, k.last_used_at, k.rotated_from,
            k.requests_per_second,
            CASE WHEN k.revoked_at IS NOT NULL THEN 'revoked' WHEN k.expires_at <= now() THEN 'expired'
                WHEN k.expires_at <= now() + interval '30 days' THEN 'expiring' ELSE 'live' END
        FROM api_keys k LEFT JOIN apps a ON a.id = k.app_id ORDER BY k.created_at, k.id
        """
    /// One rotation of a key at a time.
    static let selectForRotation: PostgresStatement = """
        SELECT k.id, a.slug, k.name, k.scopes, k.created_at, k.expires_at, k.revoked_at, k.last_used_at, k.rotated_from,
            k.requests_per_second,
            CASE WHEN k.revoked_at IS NOT NULL THEN 'revoked' WHEN k.expires_at <= now() THEN 'expired'
                WHEN k.expires_at <= now() + interval '30 days' THEN 'expiring' ELSE 'live' END
        FROM api_keys k LEFT JOIN apps a ON a.id = k.app_id WHERE k.id = $1 FOR NO KEY UPDATE OF k
        """
    static let selectLiveSuccessor: PostgresStatement = """
        SELECT id FROM api_keys WHERE rotated_from = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now()) LIMIT 1
        """
    static let insertSuccessor: PostgresStatement = """
        INSERT INTO api_keys (id, secret_sha256, app_id, name, scopes, expires_at, requests_per_second, rotated_from)
        SELECT $1, $2, app_id, name, scopes, $3, requests_per_second, id FROM api_keys WHERE id = $4
        """
    static let expire: PostgresStatement = """
        UPDATE api_keys SET expires_at = least(coalesce(expires_at, 'infinity'), now() + $2 * interval '1 second') WHERE id = $1
        """
    static let revoke: PostgresStatement =
        "UPDATE api_keys SET revoked_at = coalesce(revoked_at, now()) WHERE id = $1"
    static let selectLive: PostgresStatement = """
        SELECT k.secret_sha256, a.slug, k.scopes, k.requests_per_second, (extract(epoch FROM k.expires_at - now()) * 1000)::bigint
        FROM api_keys k LEFT JOIN apps a ON a.id = k.app_id
        WHERE k.id = $1 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
        """
    /// A row that another transaction has locked is left for the next time: waiting for it would keep the others'.
    static let noteUses: PostgresStatement = """
        UPDATE api_keys SET last_used_at = now() WHERE id = ANY (ARRAY(
            SELECT id FROM api_keys
            WHERE id = ANY ($1::text[]) AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')
            ORDER BY id FOR NO KEY UPDATE SKIP LOCKED))
        """
}
