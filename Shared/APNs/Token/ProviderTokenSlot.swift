import OpenSSL

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
