import OpenSSL
import TestIdentity

extension ES256PrivateKey {
    /// `bearer ` and a provider token.
    /// - Parameters:
    ///   - issuedAt: UNIX seconds.
    ///   - header, claims: Replace the right ones.
    func bearer(
        teamID: String = TestIdentity.teamID, keyID: String = TestIdentity.keyID, issuedAt: Int64, header: String? = nil,
        claims: String? = nil
    ) throws -> String {
        let header = header ?? #"{"alg":"ES256","kid":"\#(keyID)"}"#
        let claims = claims ?? #"{"iss":"\#(teamID)","iat":\#(issuedAt)}"#
        let signed = Base64URL.encode(Array(header.utf8)) + "." + Base64URL.encode(Array(claims.utf8))
        return try "bearer " + signed + "." + Base64URL.encode(sign(Array(signed.utf8)))
    }
}
