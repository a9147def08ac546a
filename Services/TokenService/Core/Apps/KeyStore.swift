import OpenSSL
package import Postgres
package import PushModel

/// The `api_keys` table. Secrets go in as digests and never come out.
package struct KeyStore: Sendable {
    let pool: PostgresPool

    package init(pool: PostgresPool) { self.pool = pool }

    /// A 192-bit random secret needs no slow hash (RELIABILITY.md 6.1).
    package static func digest(_ key: APIKeyText) -> [UInt8] { Digest.sha256(Array(key.secret.utf8)) }

    /// - Parameter expiresAt: UNIX milliseconds; nil for never.
    package func insert(
        _ key: APIKeyText, app: App?, name: String, scopes: Set<Scope>, expiresAt: Int64?, requestsPerSecond: Int?
    ) async throws -> APIKey {
        let digest = Self.digest(key)
        return try await pool.transaction { session in
            _ = try session.execute(
                Self.insert,
                [
                    .text(key.id), .bytes(digest), .optionalInt64(app?.id), .text(name), .textArray(Self.words(scopes)),
                    .optionalTimestamp(milliseconds: expiresAt), .optionalInt32(requestsPerSecond.map { Int32($0) }),
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

    /// Makes a key that may do what another one may, and bounds the life of that one.
    /// - Returns: nil where there is no such key.
    package func rotate(_ id: String, to key: APIKeyText, _ rotation: KeyRotation) async throws -> KeyRotation.Result? {
        let digest = Self.digest(key)
        return try await pool.transaction { session in
            guard let row = try session.execute(Self.selectForRotation, [.text(id)]).first else { return nil }
            let old = try Self.key(row)
            guard old.state == .live || old.state == .expiring else { return .over(old.state) }
            if let successor = try session.execute(Self.selectLiveSuccessor, [.text(id)]).first {
                return .alreadyRotated(successor: try successor.text(0))
            }
            _ = try session.execute(
                Self.insertSuccessor,
                [.text(key.id), .bytes(digest), .optionalTimestamp(milliseconds: rotation.expiresAt), .text(id)])
            _ = try session.execute(Self.expire, [.text(id), .int64(rotation.overlapSeconds)])
            return .rotated(
                new: try Self.key(session.execute(Self.select, [.text(key.id)]).only()),
                old: try Self.key(session.execute(Self.select, [.text(id)]).only()))
        }
    }

    /// - Returns: false where there is no such key. Revoking twice keeps the first time.
    package func revoke(_ id: String) async throws -> Bool {
        try await pool.session { session in try session.execute(Self.revoke, [.text(id)]).affected == 1 }
    }

    package struct LiveKey: Sendable {
        package let digest: [UInt8]
        package let caller: Caller
        /// How long it still lives; nil for ever.
        package let remaining: Duration?
    }

    /// Nil where there is no such key or it is over.
    package func liveKey(_ id: String) async throws -> LiveKey? {
        try await pool.session { session in
            guard let row = try session.execute(Self.selectLive, [.text(id)]).first else { return nil }
            let caller = Caller(
                keyID: id, app: try row.optionalText(1).flatMap { AppSlug($0) }, scopes: try Self.scopes(row.textArray(2)),
                requestsPerSecond: try row.optionalInt32(3).map { Int($0) })
            return LiveKey(digest: try row.bytes(0), caller: caller, remaining: try row.optionalInt64(4).map { .milliseconds($0) })
        }
    }

    /// Notes that keys are in use, of each at most once a minute: it tells keys in use from forgotten ones.
    package func noteUses(_ ids: [String]) async throws {
        try await pool.session { session in _ = try session.execute(Self.noteUses, [.textArray(ids)]) }
    }
}
