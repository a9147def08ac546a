import HTTPTypes
import PushModel
import StrictJSON
import Testing

@testable import TokenServiceAPI
@testable import TokenServiceApps
@testable import TokenServiceKit
@testable import TokenServiceSending

@Suite("Queries are read as forms are written", .serialized, .timeLimit(.minutes(5)))
struct QueryTests {
    private static let notifications = "/v1/apps/shop/notifications"

    private static func read(_ text: String?) -> [[String?]] { FormQuery(text).parameters.map { [$0.name, $0.value] } }

    @Test("A plus is a blank, in names as in values; empty parts are passed over") func decoding() {
        #expect(Self.read(nil).isEmpty && Self.read("").isEmpty && Self.read("&&").isEmpty)
        #expect(Self.read("user=rc+a%20b") == [["user", "rc a b"]])
        #expect(Self.read("a%2Bb=%2b&&c&d=&e=f=g&=h") == [["a+b", "+"], ["c", ""], ["d", ""], ["e", "f=g"], ["", "h"]])
        #expect(Self.read("u+%75=%C3%BC%f0%9f%93%a6") == [["u u", "ü📦"]])
    }

    @Test(
        "What is not percent-encoded UTF-8 is nothing",
        arguments: ["%", "%4", "%zz", "a%", "%+1", "%ff", "%E2%82", "%c0%af", "%ed%a0%80"])
    func damaged(text: String) {
        #expect(Self.read("user=\(text)&a=b") == [["user", nil], ["a", "b"]])
        #expect(Self.read("\(text)=b") == [[nil, "b"]])
    }

    @Test("Every operation refuses a parameter that it does not know, before it does anything") func unknownParameter() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            let keyOfAll = try await running.client.post(
                "/v1/admin/keys", #"{"name":"all","scopes":["devices","send","read","admin"]}"#
            ).json
            let all = running.client.with(key: keyOfAll.text("key"))
            for route in APIRoute.all {
                var path = route.path.replacing("{app}", with: "shop")
                for name in ["slug", "user", "id"] { path = path.replacing("{\(name)}", with: PushID.random().description) }
                let answer = try await all.call(route.method.rawValue, "\(path)?expected_owner=ada")
                #expect(answer.status == 400 && answer.code == "unknown_parameter", "\(route.method.rawValue) \(route.path)")
            }
        }
    }

    @Test("A user is found by every way of writing the name") func blanksAndPluses() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            for (number, user) in [(1, "rc a b"), (2, "a+b")] {
                try await shop.register(installation(number), user: user, token: token(number))
            }
            for (user, spellings) in [("rc a b", ["rc+a+b", "rc%20a%20b", "rc%20a+b"]), ("a+b", ["a%2Bb", "a%2bb"])] {
                let id = try #require(try await shop.send(#"{"user":"\#(user)"}"#).json.text("id"))
                for spelling in spellings {
                    let list = try await shop.get("\(Self.notifications)?user=\(spelling)").json["notifications"]?.arrayValue
                    #expect(list?.map { $0.text("id") } == [id], "\(spelling)")
                    let why = try await shop.get("\(Self.notifications)/\(id)/why?user=\(spelling)").json
                    #expect(why.text("user") == user && why.text("conclusion") == "waiting", "\(spelling)")
                }
            }
            let path = "/v1/apps/shop/installations/\(installation(1))"
            #expect(try await shop.delete("\(path)?expected_user=rc+a+c").status == 409)
            #expect(try await shop.delete("\(path)?expected_user=rc+a+b").status == 204)
        }
    }

    @Test("A value that cannot be decoded is a 400 that names its parameter") func refusals() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            let installations = "/v1/apps/shop/installations"
            let places = [
                (Self.notifications, "user"), (Self.notifications, "since"), ("\(Self.notifications)/\(PushID.random())/why", "user"),
                ("\(Self.notifications)/\(PushID.random())/deliveries", "reason"), (installations, "tag"), (installations, "limit"),
                (installations, "tokens"), ("/v1/apps/shop/users/ada/installations", "cursor"), ("/v1/apps/shop/export", "after"),
            ]
            for text in ["%ff", "%E2%82"] {
                for (path, name) in places {
                    Self.expectRefusal(of: name, try await shop.get("\(path)?\(name)=\(text)"))
                }
                Self.expectRefusal(of: "reason", try await running.client.get("/v1/admin/dead-letters?reason=\(text)"))
                Self.expectRefusal(
                    of: "expected_user", try await shop.delete("\(installations)/\(installation(1))?expected_user=\(text)"))
                #expect(try await shop.get("\(Self.notifications)?\(text)=ada").code == "unknown_parameter")
            }
            let unknown = try await shop.get("\(Self.notifications)/\(PushID.random())?foo=1")
            #expect(unknown.status == 400 && unknown.code == "unknown_parameter")
        }
    }

    private static func expectRefusal(of name: String, _ answer: APITestClient.Answer) {
        #expect(answer.status == 400 && answer.code == "invalid_encoding", "\(name)")
        #expect(answer.json.text("detail")?.hasPrefix("\(name): ") == true, "\(name)")
    }

    @Test("The plus of a time's offset may stand bare, and a blank nowhere else") func offsets() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            #expect(try await shop.send(#"{"user":"ada"}"#).status == 202)
            // A minute ago by a clock that is an hour ahead.
            let local = RFC3339.text(milliseconds: UnixClock.now() + 3_540_000).dropLast()
            for (end, count) in [("+01:00", 1), ("%2B01:00", 1), ("%2b01:00", 1), ("%2B00:00", 0), ("+00:00", 0), ("Z", 0)] {
                let answer = try await shop.get("\(Self.notifications)?since=\(local)\(end)")
                #expect(answer.json["notifications"]?.arrayValue?.count == count, "\(end)")
            }
            for time in ["2026-01-01+00:00:00Z", "2026-01-01T00:00:00++00:00", "2026-01-01T00:00:00Z+", "+00:00", "+", ""] {
                #expect(try await shop.get("\(Self.notifications)?since=\(time)").code == "invalid_time", "\(time)")
            }
        }
    }
}
