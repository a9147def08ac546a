import OpenSSL
package import Postgres
package import PushModel

/// The `api_keys` table. Secrets go in as digests and never come out.
package struct KeyStore: Sendable {
    private let pool: PostgresPool

    package init(pool: PostgresPool) { self.pool = pool }

    /// A 192-bit random secret needs no slow hash (RELIABILITY.md 6.1).
    package static func digest(_ key: APIKeyText) -> [UInt8] { Digest.sha256(Array(key.secret.utf8)) }

    /// - Parameter expiresAt: UNIX milliseconds; nil for never.
    package func insert(_ key: APIKeyText, app: App?, name: String, scopes: Set<Scope>, expiresAt: Int64?) async throws -> APIKey {
        let digest = Self.digest(key)
        return try await pool.transaction { session in
            try session.execute(
                Self.insert,
                [
                    .text(key.id), .bytes(digest), .optionalInt64(app?.id), .text(name), .textArray(Self.words(scopes)),
                    .optionalTimestamp(milliseconds: expiresAt),
                ])
            return try Self.key(session.execute(Self.select, [.text(key.id)]).only())
        }
    }

    /// Makes the operator's own key known as an administrator's key. The same key again changes nothing, a revoked one stays revoked.
    package func insertBootstrap(_ key: APIKeyText) async throws {
        let digest = Self.digest(key)
        try await pool.session { session in
            _ = try session.execute(
                Self.insertBootstrap,
                [.text(key.id), .bytes(digest), .typedNull(.int64), .text("bootstrap"), .textArray([Scope.admin.rawValue])])
        }
    }

    package func all() async throws -> [APIKey] {
        try await pool.session { session in try session.execute(Self.selectAll).map { row in try Self.key(row) } }
    }

    /// - Returns: false where there is no such key. Revoking twice keeps the first time.
    package func revoke(_ id: String) async throws -> Bool {
        try await pool.session { session in try session.execute(Self.revoke, [.text(id)]).affected == 1 }
    }

    /// The digest and the caller of a live key, and notes that it was used; nil where there is none or it is over.
    package func liveKey(_ id: String) async throws -> (digest: [UInt8], caller: Caller)? {
        try await pool.session { session in
            guard let row = try session.execute(Self.selectLive, [.text(id)]).first else { return nil }
            let slug = try row.optionalText(1).flatMap { AppSlug($0) }
            return (try row.bytes(0), Caller(keyID: id, app: slug, scopes: try Self.scopes(row.textArray(2))))
        }
    }

    /// Notes a use, at most once a minute: it tells keys in use from forgotten ones.
    package func noteUse(_ id: String) async throws {
        try await pool.session { session in _ = try session.execute(Self.noteUse, [.text(id)]) }
    }

    private static func words(_ scopes: Set<Scope>) -> [String] { Scope.allCases.filter(scopes.contains).map(\.rawValue) }
    private static func scopes(_ words: [String]) -> Set<Scope> { Set(words.compactMap(Scope.init(rawValue:))) }

    private static func key(_ row: PostgresRow) throws -> APIKey {
        APIKey(
            id: try row.text(0), app: try row.optionalText(1).flatMap { AppSlug($0) }, name: try row.text(2),
            scopes: scopes(try row.textArray(3)), createdAt: try row.timestampMilliseconds(4),
            expiresAt: try row.optionalTimestampMilliseconds(5), revokedAt: try row.optionalTimestampMilliseconds(6),
            lastUsedAt: try row.optionalTimestampMilliseconds(7))
    }

    private static let insert: PostgresStatement = """
        INSERT INTO api_keys (id, secret_sha256, app_id, name, scopes, expires_at) VALUES ($1, $2, $3, $4, $5, $6)
        """
    private static let insertBootstrap: PostgresStatement = """
        INSERT INTO api_keys (id, secret_sha256, app_id, name, scopes) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id) DO NOTHING
        """
    private static let select: PostgresStatement = """
        SELECT k.id, a.slug, k.name, k.scopes, k.created_at, k.expires_at, k.revoked_at, k.last_used_at
        FROM api_keys k LEFT JOIN apps a ON a.id = k.app_id WHERE k.id = $1
        """
    private static let selectAll: PostgresStatement = """
        SELECT k.id, a.slug, k.name, k.scopes, k.created_at, k.expires_at, k.revoked_at, k.last_used_at
        FROM api_keys k LEFT JOIN apps a ON a.id = k.app_id ORDER BY k.created_at, k.id
        """
    private static let revoke: PostgresStatement =
        "UPDATE api_keys SET revoked_at = coalesce(revoked_at, now()) WHERE id = $1"
    private static let selectLive: PostgresStatement = """
        SELECT k.secret_sha256, a.slug, k.scopes FROM api_keys k LEFT JOIN apps a ON a.id = k.app_id
        WHERE k.id = $1 AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
        """
    private static let noteUse: PostgresStatement = """
        UPDATE api_keys SET last_used_at = now()
        WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')
        """
}
