package import OpenSSL

/// Our identity at APNs. A connection, and so a pool, only ever uses one credential (Apple: Establishing a token-based connection to APNs).
package struct APNsCredential: Sendable {
    package enum Kind: Sendable {
        /// A provider token (JWT) signed with a `.p8` key. Both ids have ten characters.
        case token(teamID: String, keyID: String, key: ES256PrivateKey)
        /// Shown in the TLS handshake; requests carry no token (Apple: Establishing a certificate-based connection to APNs).
        case certificate(ClientCertificate)
    }

    /// The operator's name for it; appears in logs and metrics, so never a secret.
    package let name: String
    package let kind: Kind

    package init(name: String, kind: Kind) {
        self.name = name
        self.kind = kind
    }
}
