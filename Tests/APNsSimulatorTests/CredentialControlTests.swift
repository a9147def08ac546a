import APNsSimulator
import Foundation
import OpenSSL
import StrictJSON
import TestIdentity
import Testing

@Suite("Keys and certificates change while the simulator runs", .timeLimit(.minutes(5)))
struct CredentialControlTests {
    private func text(_ pem: String) -> String { pem.replacingOccurrences(of: "\n", with: "\\n") }

    @Test("A key that is added is good at once, may be replaced and revoked, and is unknown when it is removed")
    func keys() async throws {
        try await withControl { control in
            let test = control.test
            let (key, other) = (try ES256PrivateKey.generate(), try ES256PrivateKey.generate())
            let path = "/v1/keys/KEY0000009"
            func push(_ key: ES256PrivateKey) throws -> String {
                let bearer = try key.bearer(keyID: "KEY0000009", issuedAt: test.clock.now / 1000)
                return try test.client().send(TestPush().with("authorization", bearer)).body
            }
            func body(_ key: ES256PrivateKey, _ fields: String) throws -> String {
                #"{"team_id":"\#(TestIdentity.teamID)","public_key":"\#(text(try key.publicKey.pem()))"\#(fields)}"#
            }
            #expect(try push(key) == #"{"reason":"InvalidProviderToken"}"#)
            #expect(try await control.call("PUT", path, body(key, "")).status == 201)
            #expect(try push(key).isEmpty)
            #expect(try await control.call("PUT", path, body(other, #","topics":["com.example.other"]"#)).status == 200)
            #expect(try push(key) == #"{"reason":"InvalidProviderToken"}"#)
            #expect(try push(other) == #"{"reason":"TopicDisallowed"}"#)
            #expect(try await control.call("PUT", path, body(key, #","state":"suspended""#)).json?["state"]?.stringValue == "suspended")
            #expect(try push(key) == #"{"reason":"Forbidden"}"#)
            #expect(try await control.call("PUT", path, body(key, #","environments":["sandbox"]"#)).status == 200)
            #expect(try push(key) == #"{"reason":"BadEnvironmentKeyInToken"}"#)
            #expect(try await control.call("PUT", path, #"{"state":"revoked"}"#).status == 200)
            #expect(try await control.call("DELETE", path).status == 204)
            #expect(try await control.call("DELETE", path).status == 404)
            #expect(try await control.call("PUT", path, #"{"state":"active"}"#).status == 404)
            #expect(try await control.call("GET", "/v1/keys").json?["keys"]?.arrayValue?.count == 1)
        }
    }

    @Test(
        "The API refuses an invalid key and names the field at fault",
        arguments: [
            ("public_key", #"{"team_id":"TEAM000001","public_key":"-----BEGIN PUBLIC KEY-----"}"#),
            ("team_id", #"{"public_key":"x"}"#), ("environments", #"{"team_id":"T","public_key":"x","environments":["moon"]}"#),
            ("environments", #"{"team_id":"T","public_key":"x","environments":[]}"#),
        ])
    func badKeys(_ field: String, _ body: String) async throws {
        try await withControl { control in
            let answer = try await control.call("PUT", "/v1/keys/KEY0000009", body)
            #expect(answer.status == 400)
            let pointers = answer.json?["errors"]?.arrayValue?.map { $0["pointer"]?.stringValue } ?? []
            #expect(pointers.contains("/" + field))
        }
    }

    private func fingerprint(_ certificate: TLSIdentity) throws -> String {
        let line = try TestIdentity.run("openssl", "x509", "-in", certificate.certificateFile, "-noout", "-fingerprint", "-sha256")
        return String(try #require(line.split(separator: "=").last).trimmingCharacters(in: .whitespacesAndNewlines))
    }

    private func body(_ control: TestControl, _ certificate: TLSIdentity) throws -> String {
        try PushClient(port: control.test.simulator.productionPort, certificate: certificate).send(TestPush()).body
    }

    @Test("An added certificate of an unknown authority is as good as a token, until it is revoked, on live connections too")
    func certificates() async throws {
        let made = try ProviderCertificates()
        let (own, expired) = (try made.make("own", isSigned: false), try made.make("expired", days: -1, isSigned: false))
        try await withControl { control in
            // The simulator did not request a certificate here, so the client needs a token.
            #expect(try body(control, own) == #"{"reason":"MissingProviderToken"}"#)
            let path = "/v1/certificates/" + (try fingerprint(own))
            let added = try await control.call("PUT", path, #"{"state":"active"}"#)
            #expect(added.status == 201)
            let live = try PushClient(port: control.test.simulator.productionPort, certificate: own)
            #expect(try live.send(TestPush()).status == 200)
            #expect(try await control.call("PUT", path, #"{"state":"revoked"}"#).status == 200)
            #expect(try live.send(TestPush()).body == #"{"reason":"BadCertificate"}"#)
            #expect(try await control.call("PUT", path, #"{"state":"active"}"#).status == 200)
            #expect(try live.send(TestPush()).status == 200)
            #expect(try body(control, expired) == #"{"reason":"BadCertificate"}"#)
            #expect(try await control.call("PUT", "/v1/certificates/" + fingerprint(expired), #"{"state":"active"}"#).status == 201)
            #expect(try body(control, expired) == #"{"reason":"BadCertificate"}"#)
            let listed = try await control.call("GET", "/v1/certificates").json?["certificates"]?.arrayValue
            let fingerprints = listed?.map { $0["sha256"]?.stringValue } ?? []
            #expect(fingerprints.count == 2)
            #expect(fingerprints.contains(added.json?["sha256"]?.stringValue))
            #expect(try await control.call("DELETE", path).status == 204)
            #expect(try await control.call("DELETE", path).status == 404)
            #expect(try await control.call("PUT", "/v1/certificates/abc", #"{"state":"active"}"#).status == 400)
            // Tokens stay good, whether or not the simulator requests certificates.
            #expect(try control.test.client().send(control.test.push()).status == 200)
        }
    }

    @Test("A certificate of a good authority may be revoked, and is good again when its entry is removed")
    func revoked() async throws {
        let made = try ProviderCertificates()
        let certificate = try made.make("one")
        try await withControl {
            $0.clientCAFile = made.authority
        } _: { control in
            let path = "/v1/certificates/" + (try fingerprint(certificate))
            #expect(try body(control, certificate).isEmpty)
            #expect(try await control.call("PUT", path, #"{"state":"revoked"}"#).status == 201)
            #expect(try body(control, certificate) == #"{"reason":"BadCertificate"}"#)
            #expect(try await control.call("DELETE", path).status == 204)
            #expect(try body(control, certificate).isEmpty)
        }
    }
}
