/// One connection's proof of its right to push: the rules of provider tokens (Apple: Establishing a token-based connection to APNs;
/// docs/apns.md, Provider tokens). Each connection counts its own changes of token; ``TokenUpdates`` counts those of the team.
///
/// Pure: it gets the time as an argument. One per connection, used by the connection's thread.
struct ConnectionAuthority {
    /// A token older than this is answered `ExpiredProviderToken`.
    static let maximumAgeSeconds: Int64 = 3600
    /// How many different token strings are remembered; those of a client that shows more are verified again.
    private static let rememberedTokens = 8

    private static let scheme = Array("bearer ".utf8)

    private struct KnownToken {
        let text: [UInt8]
        /// nil: the signature or another part of it is wrong.
        let token: VerifiedProviderToken?
    }

    private let environment: SimulatorEnvironment
    private let keyRing: KeyRing
    private let updates: TokenUpdates
    /// The generation of ``updates`` when the team could last show this connection's token.
    private var updatesGeneration: UInt64 = 0
    private var generation: UInt64
    private var knownTokens: [KnownToken] = []
    /// The token in use, and since when, UNIX milliseconds.
    private var current: (text: [UInt8], token: VerifiedProviderToken, since: Int64)?
    /// The first key decides which team and which kind of key the connection belongs to.
    private var first: ProviderKey?
    /// Once expired, always expired (docs/apns.md, Provider tokens).
    private var isWedged = false
    /// The reading that a connection with too many updates serves no more.
    private var isRefused = false
    private var isCertificateGood = false
    /// A request with a valid token has been seen: more than one stream may be open.
    private(set) var isAuthenticated = false
    /// The certificate that the client has shown in the TLS handshake. It decides alone: provider tokens are ignored (Apple: Establishing a
    /// certificate-based connection to APNs).
    private(set) var certificate: ProviderCertificate?

    init(environment: SimulatorEnvironment, keyRing: KeyRing, updates: TokenUpdates = TokenUpdates()) {
        self.environment = environment
        self.keyRing = keyRing
        self.updates = updates
        generation = keyRing.generation
    }

    /// - Parameters:
    ///   - authorization: The header's value, if there is one.
    ///   - now: UNIX milliseconds.
    mutating func check(authorization: [UInt8]?, topic: [UInt8], now: Int64) -> RejectionReason? {
        if certificate != nil { return checkCertificate(topic: topic) }
        if isWedged { return .expiredProviderToken }
        if isRefused { return .tooManyProviderTokenUpdates }
        guard let authorization else { return .missingProviderToken }
        forgetChangedKeys()
        let reason: RejectionReason?
        // The usual case, and the only comparison it costs: the same token as before.
        if let current, current.text == authorization {
            reason = checkAge(current.token, now: now) ?? checkTeam(authorization, current.token, now: now)
        } else {
            reason = adopt(authorization, now: now)
        }
        if reason == .tooManyProviderTokenUpdates, updates.readings.tokenRefusal == .connection { isRefused = true }
        if let reason { return reason }
        guard let current else { return .invalidProviderToken }
        if current.token.isSuspended { return .forbidden }
        isAuthenticated = true
        return current.token.allows(topic: topic) ? nil : .topicDisallowed
    }

    /// Once, when the handshake is over.
    mutating func present(_ certificate: ProviderCertificate) {
        self.certificate = certificate
        isCertificateGood = certificate.isGood(keyRing.state(of: certificate.fingerprint))
        isAuthenticated = isCertificateGood
    }

    private mutating func checkCertificate(topic: [UInt8]) -> RejectionReason? {
        let latest = keyRing.generation
        if latest != generation, let certificate {
            generation = latest
            present(certificate)
        }
        guard isCertificateGood else { return .badCertificate }
        return certificate?.check(topic: topic)
    }

    private mutating func adopt(_ authorization: [UInt8], now: Int64) -> RejectionReason? {
        guard let token = verified(authorization) else { return .invalidProviderToken }
        if let reason = checkAge(token, now: now) { return reason }
        guard token.key.environments.contains(environment) else { return .badEnvironmentKeyInToken }
        if let first {
            guard token.key.teamID == first.teamID else { return .invalidProviderToken }
            guard token.key.isRelated(to: first) else { return .unrelatedKeyIDInToken }
        }
        if let current, now - current.since < TokenUpdates.minimumIntervalMilliseconds { return .tooManyProviderTokenUpdates }
        // Another token, so an answer about the one before does not count.
        updatesGeneration = 0
        if let reason = checkTeam(authorization, token, now: now) { return reason }
        first = first ?? token.key
        current = (authorization, token, now)
        return nil
    }

    /// A clock that is wrong by more than an hour looks the same in either direction.
    private mutating func checkAge(_ token: VerifiedProviderToken, now: Int64) -> RejectionReason? {
        guard abs(now / 1000 - token.issuedAt) > Self.maximumAgeSeconds else { return nil }
        isWedged = true
        return .expiredProviderToken
    }

    private mutating func checkTeam(_ authorization: [UInt8], _ token: VerifiedProviderToken, now: Int64) -> RejectionReason? {
        let latest = updates.generation
        guard latest != updatesGeneration || latest == 0 else { return nil }
        guard updates.admits(authorization, of: token.key.teamID, now: now) else { return .tooManyProviderTokenUpdates }
        updatesGeneration = latest
        return nil
    }

    /// A token's signature is verified once per connection.
    private mutating func verified(_ authorization: [UInt8]) -> VerifiedProviderToken? {
        if let known = knownTokens.first(where: { $0.text == authorization }) { return known.token }
        let token = Self.bearer(authorization).flatMap { VerifiedProviderToken($0, keys: keyRing.keys) }
        if knownTokens.count == Self.rememberedTokens { knownTokens.removeFirst() }
        knownTokens.append(KnownToken(text: authorization, token: token))
        return token
    }

    /// A key that is gone, or has other rights now, is looked up anew.
    private mutating func forgetChangedKeys() {
        let latest = keyRing.generation
        guard latest != generation else { return }
        generation = latest
        knownTokens = []
        guard let used = current else { return }
        current = verified(used.text).map { (used.text, $0, used.since) }
    }

    /// The scheme's case does not matter (RFC 9110 section 11.1); clients that write `Bearer` get through.
    private static func bearer(_ authorization: [UInt8]) -> ArraySlice<UInt8>? {
        guard authorization.count > scheme.count,
            zip(authorization, scheme).allSatisfy({ $0 | 0x20 == $1 })
        else { return nil }
        return authorization.dropFirst(scheme.count)
    }
}
