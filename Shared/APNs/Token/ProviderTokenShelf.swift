import OpenSSL
import Synchronization

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

/// The newest token of a credential. A connection that is opened while it is young begins with it and mints no other, so that replacing
/// connections does not mint. APNs answers 429 `TooManyProviderTokenUpdates` to a provider that mints often.
///
/// A connection's own renewals stay its own: it takes a token from here only at its first request or when its own is due.
final class ProviderTokenShelf: Sendable {
    /// Young enough that a connection that begins with it keeps it for at least twenty minutes before it is renewed at fifty.
    static let adoptableAge: Duration = .seconds(25 * 60)

    private let newest = Mutex<ProviderToken?>(nil)

    /// One at a time: a caller that comes while a token is made gets that one (docs/apns.md, Provider tokens).
    func token(
        now: ContinuousClock.Instant, wall: Int64, mint: () throws(TLSError) -> [UInt8]
    ) throws(TLSError) -> ProviderToken {
        try newest.withLock { newest throws(TLSError) in
            if let newest, !newest.isStale(after: Self.adoptableAge, now: now, wall: wall) { return newest }
            let fresh = ProviderToken(authorization: try mint(), mintedAt: now, wall: wall)
            newest = fresh
            return fresh
        }
    }

    /// APNs calls this token expired: no other connection may begin with it.
    func discard(_ token: ProviderToken) {
        newest.withLock { newest in
            if newest?.authorization == token.authorization { newest = nil }
        }
    }
}
