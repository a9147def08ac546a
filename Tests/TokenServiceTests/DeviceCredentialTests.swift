import Foundation
import HTTPTypes
import Postgres
import PushModel
import StrictJSON
import Testing

@testable import TokenServiceAPI
@testable import TokenServiceApps
@testable import TokenServiceKit
@testable import TokenServiceRegistry

@Suite("What a device may do with a credential of its own", .timeLimit(.minutes(5)))
struct DeviceCredentialTests {
    private static let key = RunningService.deviceKey
    private static let otherKey = String(repeating: "a1", count: 32)

    private static func credential(
        user: String? = "ada", epoch: Int64 = 3, issuedAt: Int64 = UnixTime.milliseconds() * 1000, expiresAt: Int64 = 1_800_000_000_000
    ) throws -> DeviceCredentialClaims {
        DeviceCredentialClaims(
            app: try #require(AppSlug("shop")), installation: installation(1), user: user, ownerEpoch: epoch, issuedAt: issuedAt,
            expiresAt: expiresAt)
    }

    // MARK: The text

    @Test(
        "A credential is read as it was written", arguments: ["ada", "ren\u{e9}", String(repeating: "x", count: 256), "", nil] as [String?])
    func roundTrip(user: String?) throws {
        let keys = try #require(DeviceCredentialKeys(Self.key))
        let credential = try Self.credential(user: user, epoch: .max, issuedAt: -1, expiresAt: .min)
        #expect(keys.verify(keys.text(credential)) == credential)
    }

    @Test("A credential with any other byte is none") func tampered() throws {
        let keys = try #require(DeviceCredentialKeys(Self.key))
        let text = Array(keys.text(try Self.credential()).utf8)
        for place in text.indices {
            var other = text
            other[place] = other[place] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
            #expect(keys.verify(String(decoding: other, as: UTF8.self)) == nil, "\(place)")
        }
        for length in 0..<text.count { #expect(keys.verify(String(decoding: text.prefix(length), as: UTF8.self)) == nil) }
        #expect(keys.verify(String(decoding: text, as: UTF8.self) + "A") == nil)
    }

    @Test("The first key signs and every key verifies, so that keys can be replaced") func rotation() throws {
        let old = try #require(DeviceCredentialKeys(Self.key))
        let both = try #require(DeviceCredentialKeys(Self.otherKey + "\n" + Self.key + "\n"))
        let new = try #require(DeviceCredentialKeys(Self.otherKey))
        let credential = try Self.credential()
        #expect(both.verify(old.text(credential)) == credential)
        #expect(new.verify(both.text(credential)) == credential)
        #expect(new.verify(old.text(credential)) == nil)
    }

    @Test("A file that is not all keys is refused", arguments: ["", "\n", "0f0f", String(repeating: "0g", count: 32), key + "\nx"])
    func badKeys(text: String) {
        #expect(DeviceCredentialKeys(text) == nil)
    }

    // MARK: The rule

    @Test("It is good until the owner epoch ends by another cause than this user's own sign-in") func ownerEpochs() throws {
        let own = ExpectedOwner.device(try Self.credential(epoch: 5), expecting: .anyone)
        let cases: [(owner: String?, epoch: Int64, registers: Bool, signsOut: Bool)] = [
            ("ada", 5, true, true), ("ada", 6, true, true), (nil, 5, true, false), ("eve", 5, true, false), ("eve", 6, false, false),
            (nil, 6, false, false), ("ada", 7, false, false), ("ada", 4, false, false),
        ]
        for one in cases {
            #expect(Self.refusal { try own.check(one.owner, epoch: one.epoch) } == (one.registers ? nil : "revoked"), "\(one)")
            #expect(Self.refusal { try own.checkPresent(one.owner, epoch: one.epoch) } == (one.signsOut ? nil : "revoked"), "\(one)")
        }
    }

    @Test("A device that expects a user is refused as a key is, if its credential is good") func expectedUser() throws {
        let cases: [(expected: ExpectedOwner, owner: String?, refusal: String?)] = [
            (.exactly("ada"), "ada", nil), (.exactly("eve"), "ada", "mismatch"), (.exactly(nil), "ada", "mismatch"),
            (.exactly("eve"), "eve", "revoked"), (.anyone, "eve", "revoked"), (.anyone, "ada", nil),
        ]
        for one in cases {
            let expected = ExpectedOwner.device(try Self.credential(epoch: 5), expecting: one.expected)
            #expect(Self.refusal { try expected.checkPresent(one.owner, epoch: 5) } == one.refusal, "\(one)")
            #expect(Self.refusal { try expected.check(one.owner, epoch: 6) } == one.refusal, "\(one)")
        }
    }

    private static func refusal(_ check: () throws -> Void) -> String? {
        do {
            try check()
            return nil
        } catch {
            return error is CredentialRevoked ? "revoked" : error is OwnerMismatch ? "mismatch" : "\(error)"
        }
    }

    // MARK: Over HTTP

    private static let path = "/v1/apps/shop/installations/\(installation(1))"

    @Test("A device registers, changes and signs out its own installation, for its own user") func ownInstallation() async throws {
        try await RunningService.withDevices { running, shop in
            let phone = try await shop.device(user: "ada")
            try await phone.register(installation(1), user: "ada", token: token(1))
            #expect(try await phone.call("PATCH", Self.path, #"{"permission":"provisional"}"#).json.text("permission") == "provisional")
            // Again, as at every launch.
            #expect(try await phone.put(Self.path, #"{"user":"ada","tokens":[{"token":"\#(token(2))"}]}"#).status == 200)
            let signedOut = try await phone.post(Self.path + "/logout")
            #expect(signedOut.status == 200 && signedOut.json["signed_out"]?.boolValue == true)
            #expect(try await phone.post(Self.path + "/logout").status == 200, "a repeated sign-out succeeds")
            let late = try await phone.put(Self.path, #"{"user":"ada","tokens":[]}"#)
            #expect(late.status == 403 && late.code == "credential_revoked", "a late registration does not undo the sign-out")
            let again = try await shop.device(user: "ada")
            #expect(try await again.put(Self.path, #"{"user":"ada","tokens":[]}"#).status == 200)
        }
    }

    @Test("It is no use for another user, another installation, another app or any other route") func nothingElse() async throws {
        try await RunningService.withDevices { running, shop in
            let phone = try await shop.device(user: "ada")
            for body in [#"{"user":"eve","tokens":[]}"#, #"{"user":null,"tokens":[]}"#] {
                #expect(try await phone.put(Self.path, body).code == "forbidden")
            }
            #expect(try await phone.call("PATCH", Self.path, #"{"user":"eve"}"#).code == "forbidden")
            _ = try await running.client.makeApp("other")
            // Each device may make few requests in a second, so each route has a device of its own.
            for (number, route) in APIRoute.all.enumerated() {
                let own = installation(100 + number)
                let phone = try await shop.device(user: "ada", id: own)
                let id = route.isForDevices ? installation(2) : own
                let path = route.path.replacing("{slug}", with: "shop").replacing("{user}", with: "ada")
                    .replacing("{id}", with: id.description).replacing("{activity}", with: "ride-1")
                for app in route.isOfApp ? ["shop", "other"] : [""] {
                    let answer = try await phone.call(route.method.rawValue, path.replacing("{app}", with: app), "{}")
                    #expect(
                        answer.status == (route.isForDevices ? 404 : 403), "\(route.method.rawValue) \(path) of \(app): \(answer.status)")
                }
            }
        }
    }

    @Test("It changes and reports nothing of another user who is signed in there", arguments: ["bob", nil] as [String?])
    func presentUser(of user: String?) async throws {
        try await RunningService.withDevices { running, shop in
            #expect(try await shop.put(Self.path, #"{"user":"ada","tokens":[{"token":"\#(token(1))"}]}"#).status == 201)
            #expect(try await shop.put(Self.path + "/activities/ride", #"{"token":"\#(token(2))"}"#).status == 200)
            // The backend gave it in the present epoch: its user may sign in, and nothing else.
            let device = try await shop.device(user: user)
            let receipt = #"{"notification":"\#(PushID.random())","job":0,"event":"shown","at":"2026-11-26T10:00:00Z"}"#
            for (method, path, body) in [
                ("PATCH", "", #"{"tokens":[{"token":"\#(token(3))"}]}"#), ("PATCH", "", "{}"),
                ("PUT", "/activities/ride", #"{"token":"\#(token(4))"}"#), ("DELETE", "/activities/ride", nil),
                ("POST", "/receipts", #"{"receipts":[\#(receipt)]}"#), ("POST", "/logout", nil),
            ] as [(String, String, String?)] {
                let answer = try await device.call(method, Self.path + path, body)
                #expect(answer.status == 403 && answer.code == "credential_revoked", "\(method) \(path): \(answer.status)")
            }
            let tokens = try await running.texts("token", "SELECT encode(token, 'hex') AS token FROM tokens ORDER BY 1")
            #expect(Set(tokens) == [token(1), token(2)])
            #expect(try await shop.get("/v1/apps/shop/activities/ride?user=ada").json.text("state") == "active")
            // The refused sign-out was bob's. One without a user ends nobody's time.
            let body = #"{"user":\#(user.map { "\"\($0)\"" } ?? "null"),"tokens":[]}"#
            #expect(try await device.put(Self.path, body).status == (user == nil ? 200 : 403))
            let again = try await shop.device(user: user)
            #expect(try await again.put(Self.path, body).status == 200)
        }
    }

    @Test("A registration that comes after a deregistration does not undo it, also without a user") func lateAfterDeregistration()
        async throws
    {
        try await RunningService.withDevices { _, shop in
            for user in ["ada", nil] as [String?] {
                let body = #"{"user":\#(user.map { "\"\($0)\"" } ?? "null"),"tokens":[{"token":"\#(token(1))"}]}"#
                let device = try await shop.device(user: user)
                #expect(try await device.put(Self.path, body).status == 201)
                #expect(try await device.delete(Self.path).status == 204)
                #expect(try await device.put(Self.path, body).code == "credential_revoked")
            }
        }
    }

    @Test("Another user's sign-in, a logout by the backend and a logout everywhere end it") func revocation() async throws {
        try await RunningService.withDevices { running, shop in
            for (number, end) in ["sign-in", "logout", "everywhere"].enumerated() {
                let path = "/v1/apps/shop/installations/\(installation(10 + number))"
                let phone = try await shop.device(user: "ada", id: installation(10 + number))
                #expect(try await phone.put(path, #"{"user":"ada","tokens":[]}"#).status == 201)
                let ended =
                    switch end {
                    case "sign-in": try await shop.put(path, #"{"user":"eve","tokens":[]}"#)
                    case "logout": try await shop.post(path + "/logout")
                    default: try await shop.post("/v1/apps/shop/users/ada/logout")
                    }
                #expect(ended.status == 200)
                let late = try await phone.put(path, #"{"user":"ada","tokens":[]}"#)
                #expect(late.status == 403 && late.code == "credential_revoked", "\(end)")
                // Without a user there is none to protect.
                #expect(try await phone.delete(path).status == (end == "sign-in" ? 403 : 204), "\(end)")
            }
        }
    }

    @Test("Of two credentials of one epoch, the first sign-in ends the other; a device signs out no other user") func twoUsers()
        async throws
    {
        try await RunningService.withDevices { running, shop in
            let (ada, eve) = (try await shop.device(user: "ada"), try await shop.device(user: "eve"))
            #expect(try await eve.put(Self.path, #"{"user":"eve","tokens":[]}"#).status == 201)
            #expect(try await ada.put(Self.path, #"{"user":"ada","tokens":[]}"#).code == "credential_revoked")
            #expect(try await ada.post(Self.path + "/logout").code == "credential_revoked")
            #expect(try await shop.get(Self.path).json.text("user") == "eve")
        }
    }

    private enum End: CaseIterable {
        case deviceSignsOut, deviceDeregisters, backendSignsOut, backendDeregisters, everywhere, erased
    }

    /// The device gave up waiting for its registration, and signed out. Or the backend signs out a session that has a credential already.
    /// The registration arrives after the sign-out.
    @Test(
        "A sign-out that had nothing to do stops a late sign-in too",
        arguments: ["unknown", "without a user", "deregistered", "of another user"], End.allCases)
    private func lateSignIn(before: String, end: End) async throws {
        try await RunningService.withDevices { running, shop in
            let isOthers = before == "of another user"
            let first = isOthers ? #""eve""# : "null"
            if before != "unknown" { #expect(try await shop.put(Self.path, #"{"user":\#(first),"tokens":[]}"#).status == 201) }
            if before == "deregistered" { #expect(try await shop.delete(Self.path).status == 204) }
            let phone = try await shop.device(user: "ada")
            for _ in 1...2 {
                let answer =
                    switch end {
                    case .deviceSignsOut: try await phone.post(Self.path + "/logout")
                    case .deviceDeregisters: try await phone.delete(Self.path)
                    case .backendSignsOut: try await shop.post(Self.path + "/logout", #"{"expected_user":"ada"}"#)
                    case .backendDeregisters: try await shop.delete(Self.path + (isOthers ? "?expected_user=ada" : ""))
                    case .everywhere: try await shop.post("/v1/apps/shop/users/ada/logout")
                    case .erased: try await running.client.erase("ada")
                    }
                let status =
                    switch end {
                    case .deviceSignsOut: isOthers ? 403 : 200
                    case .deviceDeregisters: isOthers ? 403 : 204
                    case .backendSignsOut: isOthers ? 409 : 200
                    case .backendDeregisters: isOthers ? 409 : 204
                    case .everywhere, .erased: 200
                    }
                #expect(answer.status == status)
            }
            for method in isOthers || before == "without a user" && end != .backendDeregisters && end != .deviceDeregisters
                ? ["PUT", "PATCH"] : ["PUT"]
            {
                let late = try await phone.call(method, Self.path, #"{"user":"ada","tokens":[]}"#)
                #expect(late.status == 403 && late.code == "credential_revoked", "\(method): \(late.status)")
            }
            #expect(try await shop.get("/v1/apps/shop/users/ada/installations").json["installations"]?.arrayValue?.isEmpty == true)
            if isOthers { #expect(try await shop.get(Self.path).json.text("user") == "eve", "refused") }
            // The next sign-in has a credential of its own.
            let again = try await shop.device(user: "ada")
            #expect(try await again.put(Self.path, #"{"user":"ada","tokens":[]}"#).status < 300)
        }
    }

    @Test("A sign-out that names a user ends the unused credentials of no other one") func othersStay() async throws {
        try await RunningService.withDevices { running, shop in
            let old = try await shop.device(user: "ada")
            try await old.register(installation(1), user: "ada", token: token(1))
            #expect(try await old.post(Self.path + "/logout").status == 200)
            // Of the device's next session, one of its own user's too: the old credential could not sign in any more.
            let (ada, grace) = (try await shop.device(user: "ada"), try await shop.device(user: "grace"))
            #expect(try await old.post(Self.path + "/logout").status == 200)
            #expect(try await ada.call("PATCH", Self.path, #"{"user":"ada"}"#).status == 200)
            #expect(try await shop.post(Self.path + "/logout", #"{"expected_user":"ada"}"#).status == 200)
            #expect(try await grace.put(Self.path, #"{"user":"grace","tokens":[]}"#).code == "credential_revoked", "the epoch has ended")
            let (present, next) = (try await shop.device(user: "ada"), try await shop.device(user: "grace"))
            for expected in [#""ada""#, "null"] {
                #expect(try await shop.post(Self.path + "/logout", #"{"expected_user":\#(expected)}"#).status == 200)
            }
            #expect(try await present.post(Self.path + "/logout").status == 200)
            #expect(try await next.put(Self.path, #"{"user":"grace","tokens":[]}"#).status == 200)
        }
    }

    @Test("A device signs out its own user, though no user was signed in when its credential was made and its installation signed out")
    func ownUserAfterSignOut() async throws {
        try await RunningService.withDevices { running, shop in
            #expect(try await shop.put(Self.path, #"{"user":null,"tokens":[]}"#).status == 201)
            let phone = try await shop.device(user: "ada")
            #expect(try await shop.post(Self.path + "/logout").status == 200)
            #expect(try await shop.put(Self.path, #"{"user":"ada","tokens":[]}"#).status == 200)
            #expect(try await phone.put(Self.path, #"{"user":"ada","tokens":[]}"#).code == "credential_revoked")
            #expect(try await phone.post(Self.path + "/logout").status == 200)
            #expect(try await shop.get(Self.path).json["user"]?.isNull == true)
        }
    }

    @Test("A credential that is made after a sign-out is good, and the next sign-out ends it, also if the database's clock was set back")
    func clockSetBack() async throws {
        try await RunningService.withDevices { running, shop in
            for path in ["users/ada/logout", "installations/\(installation(1))/logout"] {
                #expect(try await shop.post("/v1/apps/shop/\(path)").status == 200)
                try await running.execute("UPDATE sign_outs SET signed_out_at = now() + interval '1 hour'")
                let before = try await shop.device(user: "ada")
                #expect(try await shop.post("/v1/apps/shop/\(path)").status == 200)
                #expect(try await before.put(Self.path, #"{"user":"ada","tokens":[]}"#).code == "credential_revoked", "\(path)")
            }
            let phone = try await shop.device(user: "ada")
            #expect(try await phone.put(Self.path, #"{"user":"ada","tokens":[]}"#).status == 201)
        }
    }

    @Test("A sign-out everywhere else leaves the one signed in, and ends the credentials that its user had until then")
    func everywhereElse() async throws {
        try await RunningService.withDevices { running, shop in
            let phone = try await shop.device(user: "ada")
            try await phone.register(installation(1), user: "ada", token: token(1))
            #expect(try await shop.post("/v1/apps/shop/users/ada/logout", #"{"except":"\#(installation(1))"}"#).status == 200)
            // Another session of hers may have one of this installation.
            for (method, body) in [
                ("PUT", #"{"user":"ada","tokens":[]}"#), ("PATCH", #"{"tokens":[{"token":"\#(token(9))"}]}"#),
                // It does not learn who is signed in.
                ("PUT", #"{"user":"ada","tokens":[],"expected_user":"eve"}"#), ("PATCH", #"{"tokens":[],"expected_user":null}"#),
            ] {
                #expect(try await phone.call(method, Self.path, body).code == "credential_revoked", "\(method)")
            }
            #expect(try await phone.put(Self.path + "/activities/ride", #"{"token":"\#(token(8))"}"#).code == "credential_revoked")
            // Her receipts still count: she is signed in there.
            let receipt = #"{"notification":"\#(PushID.random())","job":0,"event":"shown","at":"2026-11-26T10:00:00Z"}"#
            #expect(try await phone.post(Self.path + "/receipts", #"{"receipts":[\#(receipt)]}"#).status == 200)
            let again = try await shop.device(user: "ada")
            #expect(try await again.register(installation(1), user: "ada", token: token(1)).status == 200)
            // A sign-out takes nothing but the device's own user.
            #expect(try await phone.post(Self.path + "/logout").status == 200)
            #expect(try await shop.get(Self.path).json["user"]?.isNull == true)
        }
    }

    @Test("A sign-out ends the credentials of its moment and before, of its user, installation and app alone") func moments() async throws {
        try await RunningService.withDevices { running, shop in
            let keys = try #require(DeviceCredentialKeys(Self.key))
            func register(_ user: String, issuedAt: Int64) async throws -> APITestClient.Answer {
                let expiresAt = UnixTime.milliseconds() + 60_000
                let credential = try Self.credential(user: user, epoch: 0, issuedAt: issuedAt, expiresAt: expiresAt)
                return try await shop.with(key: keys.text(credential)).put(Self.path, #"{"user":"\#(user)","tokens":[]}"#)
            }
            let other = try await running.client.makeApp("other")
            for (client, path) in [
                (shop, "shop/users/ada/logout"), (shop, "shop/installations/\(installation(2))/logout"), (other, "other/users/eve/logout"),
                (other, "other/installations/\(installation(1))/logout"),
            ] {
                #expect(try await client.post("/v1/apps/\(path)").status == 200)
            }
            #expect(try await running.count("SELECT count(*) FROM sign_outs") == 4)
            #expect(try await running.count("SELECT count(*) FROM installations") == 0, "an unknown installation leaves no other row")
            let moment = try await running.count(
                "SELECT (extract(epoch FROM min(signed_out_at)) * 1000000)::bigint AS count FROM sign_outs")
            for step in [-1, 0] as [Int64] {
                #expect(try await register("ada", issuedAt: moment + step).code == "credential_revoked", "\(step)")
            }
            // Older than every sign-out that the platform remembers.
            #expect(try await register("eve", issuedAt: moment - 1000 * SignOutMoments.kept).code == "credential_revoked")
            #expect(try await register("eve", issuedAt: moment - 1).status == 201)
            #expect(try await shop.post(Self.path + "/logout").status == 200)
            #expect(try await running.count("SELECT count(*) FROM sign_outs") == 4, "the owner epoch says it")
            #expect(try await shop.post("/v1/apps/shop/tokens/logout", #"{"token":"\#(token(7))"}"#).status == 200)
            #expect(try await running.count("SELECT count(*) FROM sign_outs") == 4, "a token that nobody has names nobody")
        }
    }

    @Test("A device that expects another user than its own changes nothing") func guarded() async throws {
        try await RunningService.withDevices { running, shop in
            let eve = try await shop.device(user: "eve")
            try await eve.register(installation(1), user: "eve", token: token(1))
            for (method, path, body) in [
                ("PUT", "", #"{"user":"eve","tokens":[],"expected_user":"ada"}"#), ("PATCH", "", #"{"tokens":[],"expected_user":"ada"}"#),
                ("PATCH", "", #"{"user":"eve","tokens":[],"expected_user":null}"#), ("POST", "/logout", #"{"expected_user":"ada"}"#),
                ("DELETE", "?expected_user=ada", nil),
            ] as [(String, String, String?)] {
                let answer = try await eve.call(method, Self.path + path, body)
                #expect(answer.status == 409 && answer.code == "owner_mismatch", "\(method) \(path): \(answer.status)")
            }
            #expect(try await running.count("SELECT count(*) FROM tokens WHERE state = 'active'") == 1)
            #expect(try await eve.put(Self.path, #"{"user":"eve","tokens":[],"expected_user":"eve"}"#).status == 200)
            #expect(try await eve.post(Self.path + "/logout", #"{"expected_user":"eve"}"#).status == 200)
        }
    }

    @Test("An expired credential still signs out its user, and does nothing else") func expired() async throws {
        try await RunningService.withDevices { running, shop in
            let phone = try await shop.device(user: "ada")
            #expect(try await phone.put(Self.path, #"{"user":"ada","tokens":[]}"#).status == 201)
            let epoch = try #require(try await shop.get(Self.path).json["owner_epoch"]?.integerValue)
            let keys = try #require(DeviceCredentialKeys(Self.key))
            let past = UnixTime.milliseconds() - 1000
            let old = try Self.credential(epoch: epoch, expiresAt: past)
            let late = shop.with(key: keys.text(old))
            #expect(try await late.put(Self.path, #"{"user":"ada","tokens":[]}"#).code == "credential_expired")
            let forgotten = try Self.credential(epoch: epoch, expiresAt: past - DeviceCredentialClaims.signOutPatience)
            #expect(try await shop.with(key: keys.text(forgotten)).post(Self.path + "/logout").code == "credential_expired")
            #expect(try await late.post(Self.path + "/logout").status == 200)
            #expect(try await shop.get(Self.path).json["user"]?.isNull == true)
        }
    }

    @Test("Without keys there are no credentials, and the answer says what the operator has to do") func off() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let body = #"{"installation":"\#(installation(1))","user":"ada"}"#
            let answer = try await shop.post("/v1/apps/shop/device-credentials", body)
            #expect(answer.status == 409 && answer.code == "device_credentials_off")
            let keys = try #require(DeviceCredentialKeys(Self.key))
            let phone = shop.with(key: keys.text(try Self.credential()))
            #expect(try await phone.put(Self.path, "{}").status == 401)
        }
    }

    @Test("A bad request is answered field by field") func badRequest() async throws {
        try await RunningService.withDevices { running, shop in
            let bad = [
                #"{"user":"ada"}"#, #"{"installation":"x","user":"ada"}"#, #"{"installation":"\#(installation(1))"}"#,
                #"{"installation":"\#(installation(1))","user":"ada","lifetime_seconds":59}"#,
                #"{"installation":"\#(installation(1))","user":"ada","more":1}"#,
            ]
            for wrong in bad {
                let answer = try await shop.post("/v1/apps/shop/device-credentials", wrong)
                #expect(answer.code == "invalid_request", "\(wrong)")
            }
        }
    }

    @Test("A device that says which token it replaces drops its own user's, and nobody else's") func replaces() async throws {
        try await RunningService.withDevices { running, shop in
            try await shop.register(installation(2), user: "ada", token: token(2))
            try await shop.register(installation(3), user: "mallory", token: token(3))
            try await shop.register(installation(4), user: nil, token: token(4))
            let mallory = try await shop.device(user: "mallory", id: installation(1))
            for number in 2...4 {
                let body = #"{"user":"mallory","tokens":[{"token":"\#(token(1))"}],"replaces":"\#(token(number))"}"#
                #expect(try await mallory.put("/v1/apps/shop/installations/\(installation(1))", body).status < 300)
                let isActive =
                    try await running.count(
                        "SELECT count(*) FROM tokens WHERE installation = \(installation(number)) AND state = 'active'") == 1
                #expect(isActive == (number == 2))
            }
            #expect(try await running.count("SELECT owner_epoch AS count FROM installations WHERE id = \(installation(2))") == 1)
            // A backend answers for its users.
            try await shop.register(installation(5), user: "eve", token: token(5))
            let body = #"{"user":"eve","tokens":[{"token":"\#(token(5))"}],"replaces":"\#(token(2))"}"#
            #expect(try await shop.put("/v1/apps/shop/installations/\(installation(5))", body).status == 200)
            #expect(
                try await running.count(
                    "SELECT count(*) FROM tokens WHERE token = \(DeviceToken(hex: token(2))?.bytes ?? []) AND state = 'active'") == 0)
        }
    }
}
