import OpenSSL

/// One connection's provider token. It lives and dies with the connection, because APNs counts renewals per connection
/// (APNS.md section 1.3, design 1; section 7, lessons 12 and 14).
struct ProviderTokenSlot {
    /// Apple refuses tokens older than 60 minutes.
    static let renewalAge: Duration = .seconds(50 * 60)
    /// Apple refuses a second renewal within 20 minutes on one connection, whatever the reason for it.
    static let minimumInterval: Duration = .seconds(20 * 60)
    /// How far the two clocks may drift apart before the wall clock counts as having been set.
    static let toleratedDrift: Duration = .seconds(30)

    private struct Minted {
        let authorization: [UInt8]
        let at: ContinuousClock.Instant
        let wall: Int64
    }

    private let signer: ProviderTokenSigner
    private var minted: Minted?
    /// How many tokens this connection has shown.
    private(set) var count = 0

    init(_ signer: ProviderTokenSigner) {
        self.signer = signer
    }

    /// The value of `authorization` to use now.
    /// - Parameters:
    ///   - now: monotonic, for the age.
    ///   - wall: UNIX milliseconds, for `iat`.
    mutating func authorization(now: ContinuousClock.Instant, wall: Int64) throws(TLSError) -> [UInt8] {
        if let minted, !isStale(minted, now, wall) || now - minted.at < Self.minimumInterval { return minted.authorization }
        let fresh = Minted(authorization: try signer.authorization(issuedAt: wall / 1000), at: now, wall: wall)
        minted = fresh
        count += 1
        return fresh.authorization
    }

    /// When the token in use was made; nil before the first request.
    var mintedAt: ContinuousClock.Instant? { minted?.at }

    /// Old by the clock that cannot be set; or the other one was set since: back, so that `iat` lies in the future now, or so far ahead
    /// that APNs sees an old token (APNS.md section 7, lesson 9).
    private func isStale(_ minted: Minted, _ now: ContinuousClock.Instant, _ wall: Int64) -> Bool {
        let age = now - minted.at
        let ageByWall = Duration.milliseconds(wall - minted.wall)
        return age >= Self.renewalAge || ageByWall >= Self.renewalAge || ageByWall < age - Self.toleratedDrift
    }
}
