import Broker
import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing

@testable import TokenService

@Suite("Tags have two owners: the backend and the app", .serialized, .timeLimit(.minutes(5)))
struct InstallationTagTests {
    private static let path = "/v1/apps/shop/installations/\(installation(1))"

    /// The backend's tags and the app's, as the API shows them.
    private static func tags(_ number: Int, _ shop: APITestClient) async throws -> [[String]] {
        let record = try await shop.record(installation(number))
        return ["tags", "app_tags"].map { (record[$0]?.arrayValue ?? []).compactMap(\.stringValue) }
    }

    private static func reached(_ expression: String, _ shop: APITestClient) async throws -> JSONValue {
        let answer = try await shop.post(
            "/v1/apps/shop/notifications/validate", #"{"to":{"tags":"\#(expression)"},"content":{"alert":"a"}}"#)
        #expect(answer.status == 200, "\(answer.json)")
        return answer.json
    }

    private static func devices(_ expression: String, _ shop: APITestClient) async throws -> Int64? {
        try await reached(expression, shop)["audience"]?.number("devices")
    }

    // MARK: What a registration cannot do

    @Test("No registration by the app changes or clears what the backend has set: tags and quiet hours") func registrations() async throws {
        try await RunningService.withDevices { running, shop in
            let quiet = "/v1/apps/shop/users/ada/quiet-hours"
            try await shop.register(installation(1), user: "ada", token: token(1), tags: ["no-marketing", "vip"])
            let hours = try await shop.put(quiet, #"{"begins_at":"22:00","ends_at":"07:00"}"#).json.written
            func check(_ appTags: [String], _ what: String) async throws {
                #expect(try await Self.tags(1, shop) == [["no-marketing", "vip"], appTags], "\(what)")
                #expect(try await shop.get(quiet).json.written == hours, "\(what)")
            }
            let whole = #"{"user":"ada","tokens":[{"token":"\#(token(1))"}],"app_tags":["beta"]}"#
            #expect(try await shop.put(Self.path, whole).status == 200)
            try await check(["beta"], "a registration that the backend forwards")
            #expect(try await shop.put(Self.path, #"{"user":"ada","tokens":[{"token":"\#(token(2))"}]}"#).status == 200)
            try await check([], "a reinstall")
            #expect(try await shop.call("PATCH", Self.path, #"{"app_tags":["beta"],"locale":"de"}"#).status == 200)
            try await check(["beta"], "a change")
            let phone = try await shop.device(user: "ada")
            #expect(try await phone.put(Self.path, #"{"user":"ada","tokens":[],"app_tags":[]}"#).status == 200)
            try await check([], "a device")
            #expect(try await phone.call("PATCH", Self.path, #"{"app_tags":["beta"],"user":"ada"}"#).status == 200)
            try await check(["beta"], "a change by a device")
            let item = #"{"id":"\#(installation(1))","user":"ada","tokens":[{"token":"\#(token(1))"}]}"#
            #expect(try await shop.post("/v1/apps/shop/installations", #"{"installations":[\#(item)]}"#).status == 200)
            try await check([], "an item of a list that names no tags")
            #expect(try await phone.post(Self.path + "/logout").status == 200)
            #expect(try await shop.put(Self.path, #"{"user":"grace","tokens":[{"token":"\#(token(1))"}]}"#).status == 200)
            try await check([], "another user")
        }
    }

    @Test("No registration states the backend's tags, whoever sends it, and no device sets them") func refused() async throws {
        try await RunningService.withDevices { running, shop in
            try await shop.register(installation(1), user: "ada", token: token(1))
            let phone = try await shop.device(user: "ada")
            for client in [shop, phone] {
                for (method, body) in [("PUT", #"{"user":"ada","tokens":[],"tags":["staff"]}"#), ("PATCH", #"{"tags":["staff"]}"#)] {
                    let answer = try await client.call(method, Self.path, body)
                    #expect(answer.status == 400, "\(method)")
                    let fault = answer.json["errors"]?[0]
                    #expect(fault?.text("pointer") == "/tags" && fault?.text("code") == "not_allowed", "\(answer.json)")
                }
            }
            let answer = try await phone.put(Self.path + "/tags", #"{"tags":["staff"]}"#)
            #expect(answer.status == 403 && answer.code == "forbidden")
            #expect(try await Self.tags(1, shop) == [[], []])
        }
    }

    @Test("A device that gives itself a tag is not among those that the backend gave it") func ownTag() async throws {
        try await RunningService.withDevices { running, shop in
            try await shop.register(installation(1), user: "ada", token: token(1), tags: ["staff"])
            let modified = try await shop.device(user: "eve", id: installation(2))
            try await modified.register(
                installation(2), user: "eve", token: token(2), more: #","app_tags":["staff","app:staff","permission:authorized"]"#)
            for (expression, devices) in [
                ("staff", 1), ("app:staff", 1), ("staff OR app:staff", 2), ("staff AND app:staff", 0), ("NOT staff", 1),
                ("app:app:staff", 1),
                ("permission:authorized", 0), ("app:permission:authorized", 1), (#"\"app:staff\""#, 1),
            ] {
                #expect(try await Self.devices(expression, shop) == Int64(devices), "\(expression)")
            }
            let job = try await running.jobs(.bulk) { jobs in
                #expect(try await shop.send(#"{"tags":"staff"}"#).status == 202)
                return try PushJob(decoding: try await jobs.next().body)
            }
            #expect(job.deliveries.map(\.installation) == [installation(1)])
            // Nor does a filter of the lists take one for the other.
            for (tag, number) in [("staff", 1), ("app:staff", 2)] {
                let listed = try await shop.get("/v1/apps/shop/installations?tag=\(tag)").json["installations"]?.arrayValue ?? []
                #expect(listed.map { $0.text("id") } == [installation(number).description], "\(tag)")
            }
        }
    }

    // MARK: What the backend does

    @Test("The backend states its tags in whole, on condition, and they end with the installation") func assignment() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            #expect(try await shop.setTags(["a"], of: installation(1)).status == 404)
            let registered = try await shop.register(installation(1), user: "ada", token: token(1), more: #","app_tags":["b"]"#)
            let first = try await shop.setTags(["a", "c"], of: installation(1))
            #expect(first.status == 200 && first.json.text("registered_at") == registered.json.text("registered_at"))
            let etag = try #require(first.header("etag"))
            #expect(etag != registered.header("etag"))
            let late = try await shop.call(
                "PUT", Self.path + "/tags", #"{"tags":[]}"#, headers: ["if-match": try #require(registered.header("etag"))])
            #expect(late.status == 412)
            #expect(try await shop.call("PUT", Self.path + "/tags", #"{"tags":["d"]}"#, headers: ["if-match": etag]).status == 200)
            #expect(try await Self.tags(1, shop) == [["d"], ["b"]])
            for body in [
                #"{}"#, #"{"tags":null}"#, #"{"tags":["app:x"]}"#, #"{"tags":["permission:denied"]}"#, #"{"tags":[],"app_tags":[]}"#,
            ] {
                #expect(try await shop.put(Self.path + "/tags", body).status == 400, "\(body)")
            }
            #expect(try await shop.setTags([], of: installation(1)).status == 200)
            #expect(try await Self.tags(1, shop) == [[], ["b"]])
            try await shop.setTags(["d"], of: installation(1))
            #expect(try await shop.delete(Self.path).status == 204)
            #expect(try await shop.setTags(["e"], of: installation(1)).status == 404)
            try await shop.register(installation(1), user: "ada", token: token(1))
            #expect(try await Self.tags(1, shop) == [[], []])
        }
    }

    @Test("Validation names an expression that means a tag of the apps and says a tag of the backend") func meantTag() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let other = try await running.client.makeApp("other")
            try await shop.register(installation(1), user: "ada", token: token(1), more: #","app_tags":["beta"]"#)
            try await other.register(installation(2), user: "ada", token: token(2), app: "other", more: #","app_tags":["alpha"]"#)
            for (expression, isNamed) in [
                ("beta", true), ("beta AND NOT muted", true), ("alpha", false), ("unheard-of", false), ("app:beta", false),
                ("app:beta AND unheard-of", false), ("NOT beta", false),
            ] {
                let warnings = try await Self.reached(expression, shop)["warnings"]?.arrayValue ?? []
                #expect(warnings.map { $0.text("code") } == (isNamed ? ["app_tag_meant"] : []), "\(expression)")
            }
        }
    }

    // MARK: Imports

    @Test("A line of an import states the backend's tags; without the field they stay, and an empty list clears them") func lines()
        async throws
    {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for (more, expected) in [
                (#","tags":["no-marketing"],"app_tags":["x"]"#, [["no-marketing"], ["x"]]), ("", [["no-marketing"], []]),
                (#","tags":null"#, [["no-marketing"], []]), (#","tags":[]"#, [[], []]),
            ] {
                _ = try await shop.importLines([importLine(1, more: more)])
                #expect(try await Self.tags(1, shop) == expected, "\(more)")
            }
        }
    }

    /// An import has no installation id, so the app registers with another one and takes the token.
    @Test("The tags of an imported device come along to the installation that its app registers, and go nowhere else")
    func movedTags() async throws {
        try await RunningService.withDevices { running, shop in
            _ = try await shop.importLines(
                (1...5).map { importLine($0, user: $0 == 5 ? nil : "ada", more: #","tags":["no-marketing"]"#) })
            func register(_ number: Int, user: String?, token taken: Int, of client: APITestClient? = nil) async throws -> [[String]] {
                try await (client ?? shop).register(installation(number), user: user, token: token(taken), more: #","app_tags":[]"#)
                return try await Self.tags(number, shop)
            }
            let phone = try await shop.device(user: "ada", id: installation(11))
            #expect(try await register(11, user: "ada", token: 1, of: phone) == [["no-marketing"], []])
            #expect(try await Self.tags(1, shop) == [[], []])
            #expect(try await register(12, user: nil, token: 2) == [["no-marketing"], []], "the user signs in later")
            #expect(try await register(12, user: "ada", token: 2) == [["no-marketing"], []])
            #expect(try await register(13, user: "eve", token: 3) == [[], []], "another person has the device")
            #expect(try await Self.tags(3, shop) == [["no-marketing"], []])
            #expect(try await register(15, user: "ada", token: 5) == [["no-marketing"], []], "the import knew no user")
            // Of an installation that its own app has registered, nothing comes along: who names its token may not be that device.
            #expect(try await register(4, user: "ada", token: 4) == [["no-marketing"], []])
            #expect(try await register(14, user: "ada", token: 4) == [[], []])
            // An item that states tags is the backend's word about its own installation.
            _ = try await shop.importLines([importLine(6, more: #","tags":["a"]"#), importLine(7, token: 6, more: #","tags":["b"]"#)])
            #expect(try await Self.tags(7, shop) == [["b"], []])
        }
    }

    @Test("The tags of an imported device that has an active token stay with it when another installation takes a retired one")
    func tagsOfLiveStandIn() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            // The second list names another token, so the first token is retired.
            for numbers in [[1, 2], [3, 4]] {
                _ = try await shop.importLines(
                    zip([1, 2], numbers).map { importLine($0, token: $1, more: #","tags":["no-marketing"]"#) })
            }
            try await shop.register(installation(11), user: "ada", token: token(1))
            #expect(try await Self.tags(11, shop) == [[], []], "it took a retired token")
            #expect(try await Self.tags(1, shop) == [["no-marketing"], []])
            try await shop.register(installation(12), user: "ada", token: token(5), more: #","replaces":"\#(token(2))""#)
            #expect(try await Self.tags(12, shop) == [[], []], "it replaced a retired token")
            #expect(try await Self.tags(2, shop) == [["no-marketing"], []])
            try await shop.register(installation(12), user: "ada", token: token(4))
            #expect(try await Self.tags(12, shop) == [["no-marketing"], []])
            #expect(try await Self.tags(2, shop) == [[], []])
        }
    }
}
