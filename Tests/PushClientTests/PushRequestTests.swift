import Foundation
import Testing

@testable import PushClient

/// The bytes that the platform gets: its service refuses a field that it does not know.
@Suite struct PushRequestTests {
    private let installation = UUID(uuidString: "6B1F0C5E-3F0E-4A53-9A39-0D4C8A6F2B11") ?? UUID()
    private let profile = PushProfile(appTags: ["beta"], locale: "de_DE", permission: .provisional)

    private func request(_ upload: Upload, credential: DeviceCredential? = nil) throws -> PushRequest {
        try PushRequest(upload, app: "shop", installation: installation, credential: credential)
    }

    private func text(_ request: PushRequest) -> String { request.body.map { String(decoding: $0, as: UTF8.self) } ?? "" }

    private func registration(_ user: String?, _ expected: ExpectedUser) -> Upload.Registration {
        let token = PushToken(Data([0x00, 0xab, 0xff]), purpose: .alert, environment: .sandbox)
        return Upload.Registration(claim: Claim(user: user, profile: profile), tokens: [token], expected: expected)
    }

    @Test func anActivityHasAPathOfItsOwn() throws {
        let token = ActivityToken(Data([0xab, 1]), environment: .sandbox, attributesType: "Ride", frequentUpdates: true, channel: "game")
        let report = try PushRequest(
            .reportActivity("ride 1/2", token, .exactly("ada")), app: "shop", installation: UUID(), credential: nil)
        #expect(report.method == "PUT" && report.path.hasSuffix("/activities/ride%201%2F2"))
        let expected = #"""
            {"attributes_type":"Ride","channel":"game","environment":"sandbox","expected_user":"ada","frequent_updates":true,"token":"ab01"}
            """#
        #expect(text(report) == expected)
        let end = try PushRequest(.endActivity("é"), app: "shop", installation: UUID(), credential: nil)
        #expect(end.method == "DELETE" && end.path.hasSuffix("/activities/%C3%A9") && end.body == nil)
    }

    @Test func aRegistrationStatesEverything() throws {
        let request = try request(.register(registration("ada", .exactly(nil))), credential: DeviceCredential("psd_x"))
        #expect(request.method == "PUT")
        #expect(request.path == "/v1/apps/shop/installations/6b1f0c5e-3f0e-4a53-9a39-0d4c8a6f2b11")
        #expect(request.headers == ["Authorization": "Bearer psd_x", "Content-Type": "application/json"])
        let expected = #"""
            {"app_tags":["beta"],"app_version":null,"device_model":null,"expected_user":null,"locale":"de_DE","os_version":null,\#
            "permission":"provisional","time_zone":null,"tokens":[{"environment":"sandbox","purpose":"alert","token":"00abff"}],\#
            "user":"ada"}
            """#
        #expect(text(request) == expected)
    }

    @Test(
        "The locale goes without its extensions",
        arguments: [
            ("de_DE@calendar=buddhist;currency=EUR;numbers=latn;rg=atzzzz;fw=monday;hc=h23", "de_DE"), ("de-DE-u-ca-buddhist", "de-DE"),
            ("zh_TW", "zh_TW"), ("en_US_POSIX", "en_US_POSIX"), ("de", "de"), ("de-u", "de-u"), ("x-private", "x-private"),
        ])
    func locales(identifier: String, sent: String) throws {
        let claim = Claim(user: nil, profile: PushProfile(locale: identifier))
        for upload in [
            Upload.register(.init(claim: claim, tokens: [], expected: .anyone)),
            .change(.init(claim: claim, tokens: [], expected: .anyone)),
        ] {
            #expect(text(try request(upload)).contains("\"locale\":\"\(sent)\""))
        }
    }

    @Test func aRegistrationNamesThePurposesThatItKeeps() throws {
        var registration = registration("ada", .anyone)
        registration.keeps = [.location, .controls]
        #expect(text(try request(.register(registration))).contains(#""keeps":["controls","location"],"#))
        #expect(!text(try request(.change(registration))).contains("keeps"))
    }

    @Test func aChangeNamesNoTokens() throws {
        let request = try request(.change(registration(nil, .anyone)))
        #expect(request.method == "PATCH")
        let expected = #"""
            {"app_tags":["beta"],"app_version":null,"device_model":null,"locale":"de_DE","os_version":null,"permission":"provisional",\#
            "time_zone":null,"user":null}
            """#
        #expect(text(request) == expected)
        #expect(request.headers["Authorization"] == nil)
    }

    @Test func aDeregistrationExpectsInTheQuery() throws {
        let request = try request(.deregister(.exactly("ada+ö/b")))
        #expect(request.method == "DELETE")
        #expect(request.path.hasSuffix("2b11?expected_user=ada%2B%C3%B6%2Fb"))
        #expect(request.body == nil)
    }

    /// With whose session a backend that forwards takes the request.
    @Test func aRequestSaysWhomItExpects() throws {
        #expect(try request(.signOut(.exactly("ada"))).expectedUser == "ada")
        #expect(try request(.deregister(.exactly("ada+ö/b"))).expectedUser == "ada+ö/b")
        #expect(try request(.register(registration("bob", .exactly("ada")))).expectedUser == "ada")
        for upload in [Upload.signOut(.anyone), .signOut(.exactly(nil)), .receipts([]), .endActivity("ride")] {
            #expect(try request(upload).expectedUser == nil)
        }
    }

    @Test func receiptsAreDated() throws {
        let notification = UUID(uuidString: "019AC0DE-4F00-7CC3-9B00-5D2F6C1E8A77") ?? UUID()
        let request = try request(
            .receipts([
                PushReceipt(
                    source: PushSource(notification: notification, job: 7), event: .opened,
                    at: Date(timeIntervalSince1970: 1_800_000_000.25))
            ]))
        #expect(request.method == "POST")
        #expect(request.path.hasSuffix("2b11/receipts"))
        let expected =
            #"""
            {"receipts":[{"at":"2027-01-15T08:00:00.250Z","event":"opened","job":7,"notification":"019ac0de-4f00-7cc3-9b00-5d2f6c1e8a77"}]}
            """#
        #expect(text(request) == expected)
    }

    @Test func aTokenOfAnyLengthIsHex() {
        let token = PushToken(Data(repeating: 0x0f, count: 100), purpose: .alert, environment: .production)
        #expect(token.hex == String(repeating: "0f", count: 100))
        #expect("\(token)" == "alert …0f0f0f")
        #expect("\(DeviceCredential("psd_secret"))" == "a device credential")
    }

    @Test func anAnswerNamesCodeAndDelay() {
        let response = PushResponse(status: 429, headers: ["Retry-After": "7"], body: Data(#"{"code":"rate_limited"}"#.utf8))
        #expect(response.answer == .response(status: 429, code: "rate_limited", retryAfter: .seconds(7)))
        let date = PushResponse(status: 503, headers: ["retry-after": "Fri, 15 Jan 2027 08:00:00 GMT"])
        #expect(date.answer == .response(status: 503, code: nil, retryAfter: nil))
    }

    @Test func aCredentialComesFromTheAnswerOfThePlatform() throws {
        let answer = Data(#"{"credential": "psd_abc", "expires_at": "2027-01-15T08:00:00Z"}"#.utf8)
        #expect(try DeviceCredential(answer: answer) == DeviceCredential("psd_abc"))
    }
}
