import OpenSSL
import TestIdentity

extension TestIdentity {
    static let strangerKeyID = "KEY0000002"

    var credentialsFile: String { directory + "/credentials.json" }

    /// The identity with a credentials file that names the keys of two teams.
    static let configured = Result {
        let identity = try shared.get()
        try identity.write(try identity.key.pem(), to: "shop.p8")
        // The simulator does not know this key, as Apple does not know a revoked one.
        try identity.write(try ES256PrivateKey.generate().pem(), to: "other.p8")
        try identity.write(
            """
            {"v": 1, "credentials": [
              {"name": "shop", "team_id": "\(teamID)", "key_id": "\(keyID)", "key_file": "shop.p8",
               "environments": ["production", "sandbox"], "apps": ["shop", "cafe"]},
              {"name": "other", "team_id": "\(teamID)", "key_id": "\(strangerKeyID)", "key_file": "other.p8",
               "environments": ["production"], "apps": ["other"]}
            ]}
            """, to: "credentials.json")
        return identity
    }
}
