import OpenSSL
import StrictJSON

/// Makes provider tokens (JWT, RFC 7519) of one credential: `bearer <jwt>`, as the `authorization` header wants it
/// (Apple: Establishing a token-based connection to APNs).
struct ProviderTokenSigner: Sendable {
    private let header: [UInt8]
    private let teamID: String
    private let key: ES256PrivateKey
    let shelf = ProviderTokenShelf()

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

    /// The credential's newest token while that is young, else a new one.
    /// - Parameters:
    ///   - now: monotonic, for the age.
    ///   - wall: UNIX milliseconds, for `iat`.
    func token(now: ContinuousClock.Instant, wall: Int64) throws(TLSError) -> ProviderToken {
        try shelf.token(now: now, wall: wall) { () throws(TLSError) in try authorization(issuedAt: wall / 1000) }
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
