import APNsSimulator
import OpenSSL
import TestIdentity
import Testing

@Suite("Provider tokens are judged as Apple judges them", .timeLimit(.minutes(5)))
struct ProviderTokenTests {
    @Test("A good token is accepted until it is an hour old, and then refused on that connection for ever")
    func expires() async throws {
        try await withSimulator { test in
            let client = try test.client()
            let push = test.push()
            #expect(try client.send(push).status == 200)
            test.clock.advance(by: .seconds(3600))
            #expect(try client.send(push).status == 200)
            test.clock.advance(by: .seconds(1))
            let refused = try client.send(push)
            #expect(refused.status == 403)
            #expect(refused.body == #"{"reason":"ExpiredProviderToken"}"#)
            let fresh = try TestPush().with("authorization", test.bearer())
            #expect(try client.send(fresh).body == #"{"reason":"ExpiredProviderToken"}"#)
            #expect(try test.client().send(fresh).status == 200)
        }
    }

    @Test("A token from more than an hour ahead counts as expired, because its clock is wrong")
    func future() async throws {
        try await withSimulator { test in
            let push = try TestPush().with("authorization", test.bearer(secondsAgo: -3700))
            #expect(try test.client().send(push).body == #"{"reason":"ExpiredProviderToken"}"#)
        }
    }

    @Test("A second token within twenty minutes is one update too many; the first one stays good; after twenty minutes a new one may come")
    func updates() async throws {
        try await withSimulator { test in
            let client = try test.client()
            let (first, second) = (test.push(), try TestPush().with("authorization", test.bearer(secondsAgo: 5)))
            #expect(try client.send(first).status == 200)
            test.clock.advance(by: .seconds(20 * 60 - 1))
            let refused = try client.send(second)
            #expect(refused.status == 429)
            #expect(refused.body == #"{"reason":"TooManyProviderTokenUpdates"}"#)
            #expect(try client.send(first).status == 200)
            test.clock.advance(by: .seconds(1))
            #expect(try client.send(second).status == 200)
            #expect(try client.send(first).body == #"{"reason":"TooManyProviderTokenUpdates"}"#)
        }
    }

    @Test("The simulator counts updates per connection")
    func updatesPerConnection() async throws {
        try await withSimulator { test in
            let other = try TestPush().with("authorization", test.bearer(secondsAgo: 9))
            #expect(try test.client().send(test.push()).status == 200)
            #expect(try test.client().send(other).status == 200)
        }
    }

    struct BadToken: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let make: @Sendable (TestSimulator) throws -> String
    }

    @Test(
        "A fault in the token itself is InvalidProviderToken",
        arguments: [
            BadToken(testDescription: "an unknown key id") { try $0.bearer(keyID: "KEY9999999") },
            BadToken(testDescription: "another team than the key's") { try $0.bearer(teamID: "TEAM999999") },
            BadToken(testDescription: "signed by another key") {
                try ES256PrivateKey.generate().bearer(issuedAt: $0.clock.now / 1000)
            },
            BadToken(testDescription: "another algorithm") {
                try $0.identity.key.bearer(issuedAt: 0, header: #"{"alg":"none","kid":"\#(TestIdentity.keyID)"}"#)
            },
            BadToken(testDescription: "no time of issue") {
                try $0.identity.key.bearer(issuedAt: 0, claims: #"{"iss":"\#(TestIdentity.teamID)"}"#)
            },
            BadToken(testDescription: "claims that are no JSON") { try $0.identity.key.bearer(issuedAt: 0, claims: "hello") },
            BadToken(testDescription: "a character of the signature changed") { test in
                let token = try test.bearer()
                let index = token.index(token.endIndex, offsetBy: -20)
                return token[..<index] + (token[index] == "A" ? "B" : "A") + token[token.index(after: index)...]
            },
            BadToken(testDescription: "two parts") { try String($0.bearer().split(separator: ".").prefix(2).joined(separator: ".")) },
        ])
    func invalid(_ token: BadToken) async throws {
        try await withSimulator { test in
            let response = try test.client().send(TestPush().with("authorization", token.make(test)))
            #expect(response.status == 403)
            #expect(response.body == #"{"reason":"InvalidProviderToken"}"#)
        }
    }

    @Test("Apple's known leniency: iat as a string, padded and standard base 64")
    func leniency() async throws {
        try await withSimulator { test in
            let claims = #"{"iss":"\#(TestIdentity.teamID)","iat":"\#(test.clock.now / 1000)"}"#
            let token = try test.identity.key.bearer(issuedAt: 0, claims: claims)
            let padded = token.replacing("-", with: "+").replacing("_", with: "/") + "=="
            #expect(try test.client().send(TestPush().with("authorization", padded)).status == 200)
        }
    }

    @Test("A connection belongs to its first team")
    func oneTeam() async throws {
        let other = try ES256PrivateKey.generate()
        try await withSimulator { configuration in
            configuration.keys.append(ProviderKey(teamID: "TEAM000002", keyID: "KEY0000002", publicKey: other.publicKey))
        } _: { test in
            let client = try test.client()
            let stranger = try TestPush().with(
                "authorization", other.bearer(teamID: "TEAM000002", keyID: "KEY0000002", issuedAt: test.clock.now / 1000))
            #expect(try client.send(test.push()).status == 200)
            #expect(try client.send(stranger).body == #"{"reason":"InvalidProviderToken"}"#)
            #expect(try test.client().send(stranger).status == 200)
        }
    }

    @Test("A key is good for its environments and topics, and a connection for one kind of key")
    func keyScopes() async throws {
        let narrow = try ES256PrivateKey.generate()
        try await withSimulator { configuration in
            configuration.keys.append(
                ProviderKey(
                    teamID: TestIdentity.teamID, keyID: "KEYNARROW1", publicKey: narrow.publicKey, environments: [.production],
                    topics: [TestPush.topic]))
        } _: { test in
            let push = try TestPush().with("authorization", narrow.bearer(keyID: "KEYNARROW1", issuedAt: test.clock.now / 1000))
            let voip = push.with("apns-push-type", "voip").with("apns-topic", TestPush.topic + ".voip")
            let client = try test.client()
            #expect(try client.send(push).status == 200)
            #expect(try client.send(voip).status == 200)
            let foreign = try client.send(push.with("apns-topic", "com.example.other"))
            #expect(foreign.status == 400)
            #expect(foreign.body == #"{"reason":"TopicDisallowed"}"#)
            #expect(try client.send(test.push()).body == #"{"reason":"UnrelatedKeyIdInToken"}"#)
            #expect(try test.client(.sandbox).send(push).body == #"{"reason":"BadEnvironmentKeyInToken"}"#)
        }
    }

    @Test("A revoked key stops working on live connections, and works again when it is back")
    func revocation() async throws {
        try await withSimulator { test in
            let client = try test.client()
            #expect(try client.send(test.push()).status == 200)
            test.simulator.revoke(keyID: TestIdentity.keyID)
            #expect(try client.send(test.push()).body == #"{"reason":"InvalidProviderToken"}"#)
            test.simulator.add(
                ProviderKey(teamID: TestIdentity.teamID, keyID: TestIdentity.keyID, publicKey: test.identity.key.publicKey))
            #expect(try client.send(test.push()).status == 200)
        }
    }
}
