import OpenSSL
import StrictJSON
import Synchronization

/// Makes the provider tokens (JWT, RFC 7519) of one signing key: `bearer <jwt>`, as the `authorization` header wants it (Apple:
/// Establishing a token-based connection to APNs). Thread-safe.
///
/// It keeps the newest one. All pools that sign with the key show it (``APNsEventLoops/signer(of:)``), because APNs answers 429
/// `TooManyProviderTokenUpdates` to a provider that mints often, and may count the tokens of a team (docs/apns.md, Provider tokens).
final class ProviderTokenSigner: Sendable {
    /// Young enough that a connection that begins with it keeps it for at least twenty minutes before it is renewed at fifty.
    static let adoptableAge: Duration = .seconds(25 * 60)

    private let header: [UInt8]
    private let teamID: String
    private let key: ES256PrivateKey
    private let newest = Mutex<ProviderToken?>(nil)

    /// Nil with a certificate.
    init?(_ credential: APNsCredential) {
        guard case .token(let teamID, let keyID, let key) = credential.kind else { return nil }
        var json = JSONWriter()
        json.object {
            $0.field("alg", "ES256")
            $0.field("kid", keyID)
        }
        header = Array(Base64URL.encode(json.bytes).utf8)
        self.teamID = teamID
        self.key = key
    }

    /// The newest token while it is young, else a new one. One at a time: a caller that comes while a token is made gets that one.
    /// - Parameters:
    ///   - now: monotonic, for the age.
    ///   - wall: UNIX milliseconds, for `iat`.
    func token(now: ContinuousClock.Instant, wall: Int64) throws(TLSError) -> ProviderToken {
        try newest.withLock { newest throws(TLSError) in
            if let newest, !newest.isStale(after: Self.adoptableAge, now: now, wall: wall) { return newest }
            let fresh = ProviderToken(authorization: try authorization(issuedAt: wall / 1000), mintedAt: now, wall: wall)
            newest = fresh
            return fresh
        }
    }

    /// Whether a newer token than this one is in use.
    func hasNewer(than token: ProviderToken) -> Bool {
        newest.withLock { $0.map { $0.mintedAt > token.mintedAt } ?? false }
    }

    /// APNs calls this token expired: no other connection may begin with it.
    func discard(_ token: ProviderToken) {
        newest.withLock { newest in
            if newest?.authorization == token.authorization { newest = nil }
        }
    }

    /// - Parameter issuedAt: UNIX seconds.
    func authorization(issuedAt: Int64) throws(TLSError) -> [UInt8] {
        var claims = JSONWriter()
        claims.object {
            $0.field("iss", teamID)
            $0.field("iat", issuedAt)
        }
        var signed = header
        signed.append(UInt8(ascii: "."))
        signed.append(contentsOf: Base64URL.encode(claims.bytes).utf8)
        let signature = try key.sign(signed)
        return Array("bearer ".utf8) + signed + [UInt8(ascii: ".")] + Array(Base64URL.encode(signature).utf8)
    }
}

/// A provider token with the times that its age is counted from.
struct ProviderToken: Sendable {
    /// The value of the `authorization` header.
    let authorization: [UInt8]
    let mintedAt: ContinuousClock.Instant
    /// UNIX milliseconds.
    let wall: Int64

    /// How far the two clocks may drift apart before the wall clock counts as having been set.
    private static let toleratedDrift: Duration = .seconds(30)

    func age(now: ContinuousClock.Instant) -> Duration { now - mintedAt }

    /// Old by the clock that cannot be set. Or the wall clock was set since: back, so that `iat` lies in the future now, or so far ahead
    /// that APNs sees an old token (docs/apns.md, Provider tokens).
    func isStale(after limit: Duration, now: ContinuousClock.Instant, wall: Int64) -> Bool {
        let age = age(now: now)
        let ageByWall = Duration.milliseconds(wall - self.wall)
        return age >= limit || ageByWall >= limit || ageByWall < age - Self.toleratedDrift
    }
}

/// One connection's provider token. A connection begins with its key's newest token if that is young, and goes over to a newer one as soon
/// as it may: APNs counts the changes of a connection, and perhaps of the team (docs/apns.md, Provider tokens).
struct ProviderTokenSlot {
    /// Apple refuses tokens older than 60 minutes.
    static let renewalAge: Duration = .seconds(50 * 60)
    /// Apple refuses a second renewal within 20 minutes on one connection, for any reason.
    static let minimumInterval: Duration = .seconds(20 * 60)

    private let signer: ProviderTokenSigner
    private var current: ProviderToken?
    /// When this connection first showed it.
    private var since: ContinuousClock.Instant?

    init(_ signer: ProviderTokenSigner) {
        self.signer = signer
    }

    /// The value of `authorization` to use now.
    /// - Parameters:
    ///   - now: monotonic, for the age.
    ///   - wall: UNIX milliseconds, for `iat`.
    mutating func authorization(now: ContinuousClock.Instant, wall: Int64) throws(TLSError) -> [UInt8] {
        if let current, let since,
            now - since < Self.minimumInterval
                || !current.isStale(after: Self.renewalAge, now: now, wall: wall) && !signer.hasNewer(than: current)
        {
            return current.authorization
        }
        let fresh = try signer.token(now: now, wall: wall)
        current = fresh
        since = now
        return fresh.authorization
    }

    /// When the token in use was made; nil before the first request.
    var mintedAt: ContinuousClock.Instant? { current?.mintedAt }

    /// APNs calls it expired: no other connection begins with it.
    func discard() {
        if let current { signer.discard(current) }
    }
}
