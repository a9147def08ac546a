import OpenSSL
package import Postgres
package import PushModel
import TokenServiceKit

/// The `api_keys` table. Secrets go in as digests and never come out.
/// It works for every app: keys are the operator's.
package struct KeyStore: Sendable {
    let pool: PostgresPool

    package init(pool: PostgresPool) { self.pool = pool }

    /// A 192-bit random secret needs no slow hash: no attacker can try enough of them.
    package static func digest(_ key: APIKeyText) -> [UInt8] { Digest.sha256(Array(key.secret.utf8)) }

    /// - Parameter expiresAt: UNIX milliseconds; nil for never.
    package func insert(
        _ key: APIKeyText, app: App?, name: String, scopes: Set<KeyScope>, expiresAt: Int64?, requestsPerSecond: Int?, by actor: AuditActor
    ) async throws -> APIKey {
        let digest = Self.digest(key)
        return try await pool.transaction { session in
            try session.execute(
                """
                INSERT INTO api_keys (id, secret_sha256, app_id, name, scopes, expires_at, requests_per_second, created_by)
                VALUES (\(key.id), \(digest), \(app?.id), \(name), \(Self.words(scopes)), \(milliseconds: expiresAt), \(requestsPerSecond),
                    \(actor.keyID))
                """)
            try AuditStore(session: session).record(.keyCreated, by: actor, app: app?.slug, object: key.id)
            return try Self.key(key.id, in: session)
        }
    }

    /// Makes the operator's own key known as an administrator's key. The same key again changes nothing, a revoked one stays revoked.
    package func insertBootstrap(_ key: APIKeyText) async throws {
        let digest = Self.digest(key)
        try await pool.transaction { session in
            let made = try session.execute(
                """
                INSERT INTO api_keys (id, secret_sha256, name, scopes)
                VALUES (\(key.id), \(digest), 'bootstrap', \([KeyScope.admin.rawValue]))
                ON CONFLICT (id) DO NOTHING
                """)
            if made.affected == 1 { try AuditStore(session: session).record(.keyCreated, by: .service, object: key.id) }
        }
    }

    package func key(_ id: String) async throws -> APIKey? {
        try await pool.session { session in
            try session.execute("SELECT * FROM api_keys_with_state WHERE id = \(id)").map { row in try APIKey(row) }.first
        }
    }

    package func all() async throws -> [APIKey] {
        try await pool.session { session in
            try session.execute("SELECT * FROM api_keys_with_state ORDER BY created_at, id").map { row in try APIKey(row) }
        }
    }

    /// Makes a key that may do what another one may, and bounds the life of that one.
    /// - Throws: ``APIError`` 404 where there is no such key, 409 where it is over, or where a key that replaces it is live: more than two
    ///   live keys are never needed, and are soon forgotten.
    package func rotate(
        _ id: String, to key: APIKeyText, _ rotation: KeyRotation, by actor: AuditActor
    ) async throws -> KeyRotation.Result {
        let digest = Self.digest(key)
        return try await pool.transaction { session in
            // One rotation of a key at a time.
            guard try session.execute("SELECT FROM api_keys WHERE id = \(id) FOR NO KEY UPDATE").affected == 1 else {
                throw APIError.notFound
            }
            let old = try Self.key(id, in: session)
            guard old.state == .live || old.state == .expiring else {
                throw APIError(.keyNotLive, "a key that is \(old.state.rawValue) cannot be rotated: make a new one")
            }
            if let successor = try Self.liveSuccessor(of: id, in: session) {
                throw APIError(.keyAlreadyRotated, "\(successor) replaces it and is live: rotate that one, or revoke it first")
            }
            try session.execute(
                """
                INSERT INTO api_keys (id, secret_sha256, app_id, name, scopes, expires_at, requests_per_second, rotated_from, created_by)
                SELECT \(key.id), \(digest), app_id, name, scopes, \(milliseconds: rotation.expiresAt), requests_per_second, id,
                    \(actor.keyID)::text
                FROM api_keys WHERE id = \(id)
                """)
            try session.execute(
                """
                UPDATE api_keys SET expires_at = least(coalesce(expires_at, 'infinity'),
                    now() + \(rotation.overlapSeconds) * interval '1 second')
                WHERE id = \(id)
                """)
            try AuditStore(session: session).record(.keyRotated, by: actor, app: old.app, object: id)
            return KeyRotation.Result(new: try Self.key(key.id, in: session), old: try Self.key(id, in: session))
        }
    }

    private static func key(_ id: String, in session: PostgresSession) throws -> APIKey {
        try APIKey(session.execute("SELECT * FROM api_keys_with_state WHERE id = \(id)").only())
    }

    private static func liveSuccessor(of id: String, in session: PostgresSession) throws -> String? {
        try session.execute(
            """
            SELECT id FROM api_keys WHERE rotated_from = \(id) AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now()) LIMIT 1
            """
        ).first?["id"]
    }

    /// Revoking twice keeps the first time.
    /// - Throws: ``APIError`` 404 where there is no such key.
    package func revoke(_ id: String, by actor: AuditActor) async throws {
        try await pool.transaction { session in
            guard try session.execute("SELECT FROM api_keys WHERE id = \(id) FOR NO KEY UPDATE").affected == 1 else {
                throw APIError.notFound
            }
            let key = try Self.key(id, in: session)
            guard key.revokedAt == nil else { return }
            try session.execute("UPDATE api_keys SET revoked_at = now(), revoked_by = \(actor.keyID) WHERE id = \(id)")
            try AuditStore(session: session).record(.keyRevoked, by: actor, app: key.app, object: id)
        }
    }

    package struct LiveKey: Sendable {
        package let digest: [UInt8]
        package let caller: Caller
        /// How long it still lives; nil for ever.
        package let remaining: Duration?
    }

    /// Reads which of these keys exist and are not over, by id.
    package func liveKeys(_ ids: [String]) async throws -> [String: LiveKey] {
        try await pool.session { session in
            let rows = try session.execute(
                """
                SELECT k.id, k.secret_sha256, a.slug AS app, k.scopes, k.requests_per_second,
                    (extract(epoch FROM k.expires_at - now()) * 1000)::bigint AS remaining_ms
                FROM api_keys k LEFT JOIN apps a ON a.id = k.app_id
                WHERE k.id = ANY (\(ids)) AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > now())
                """)
            return try rows.reduce(into: [:]) { keys, row in
                let id: String = try row["id"]
                let caller = Caller(
                    keyID: id, app: try row["app"], scopes: Self.scopes(try row["scopes"]),
                    requestsPerSecond: try row["requests_per_second"])
                keys[id] = LiveKey(
                    digest: try row["secret_sha256"], caller: caller,
                    remaining: try (row["remaining_ms"] as Int64?).map { .milliseconds($0) })
            }
        }
    }

    /// Records that keys are in use, of each at most once a minute, so that an operator finds forgotten keys. It skips a row that another
    /// transaction has locked: waiting for it would delay the records of the other keys.
    package func noteUses(_ ids: [String]) async throws {
        try await pool.session { session in
            _ = try session.execute(
                """
                UPDATE api_keys SET last_used_at = now() WHERE id = ANY (ARRAY(
                    SELECT id FROM api_keys
                    WHERE id = ANY (\(ids)) AND (last_used_at IS NULL OR last_used_at < now() - interval '1 minute')
                    ORDER BY id FOR NO KEY UPDATE SKIP LOCKED))
                """)
        }
    }

    private static func words(_ scopes: Set<KeyScope>) -> [String] { KeyScope.allCases.filter(scopes.contains).map(\.rawValue) }
    fileprivate static func scopes(_ words: [String]) -> Set<KeyScope> { Set(words.compactMap(KeyScope.init(rawValue:))) }
}

extension APIKey {
    /// - Parameter row: A row of the view `api_keys_with_state`.
    fileprivate init(_ row: PostgresRow) throws(PostgresError) {
        self.init(
            id: try row["id"], app: try row["app"], name: try row["name"], scopes: KeyStore.scopes(try row["scopes"]),
            createdAt: try row.milliseconds("created_at"), expiresAt: try row.milliseconds("expires_at"),
            revokedAt: try row.milliseconds("revoked_at"), lastUsedAt: try row.milliseconds("last_used_at"),
            rotatedFrom: try row["rotated_from"], createdBy: try row["created_by"], revokedBy: try row["revoked_by"],
            requestsPerSecond: try row["requests_per_second"], state: try row["state"])
    }
}

extension APIKey.State: PostgresDecodable {}

/// A request to rotate a key.
package struct KeyRotation: Equatable, Sendable {
    package static let defaultOverlapSeconds: Int64 = 86_400
    package static let overlapSeconds: ClosedRange<Int64> = 0...(30 * 86_400)

    /// The longest further life of the old key: a rotation never extends its expiry.
    package var overlapSeconds: Int64
    /// The new key's; UNIX milliseconds; nil for never.
    package var expiresAt: Int64?

    package init(overlapSeconds: Int64 = defaultOverlapSeconds, expiresAt: Int64? = nil) {
        self.overlapSeconds = overlapSeconds
        self.expiresAt = expiresAt
    }

    /// Both, as they are now.
    package struct Result: Equatable, Sendable {
        package var new: APIKey
        package var old: APIKey
    }
}
