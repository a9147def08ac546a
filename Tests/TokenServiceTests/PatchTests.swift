import Postgres
import PushModel
import StrictJSON
import Testing

@Suite("Single fields change without undoing what others changed", .serialized, .timeLimit(.minutes(5)))
struct PatchTests {
    private let path = "/v1/apps/shop/installations/\(installation(1))"

    @Test("A patch changes only the fields that it names, and is no registration by the device") func namedFields() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let before = try await shop.register(
                installation(1), user: "ada", token: token(1),
                more: #","locale":"de_AT","app_tags":["a","b"],"app_version":"1.0"}"#.dropLastBrace)
            let after = try await shop.call("PATCH", path, #"{"app_tags":["c"],"locale":null}"#)
            #expect(after.status == 200)
            #expect(after.json["app_tags"]?.arrayValue?.compactMap(\.stringValue) == ["c"])
            #expect(after.json.text("locale") == nil)
            #expect(after.json.text("app_version") == "1.0")
            #expect(after.json.text("user") == "ada")
            #expect(after.json.tokenStates == ["\(hint(1)) active"])
            #expect(after.json.text("registered_at") == before.json.text("registered_at"))
            #expect(after.json["tokens"]?[0]?.text("registered_at") == before.json["tokens"]?[0]?.text("registered_at"))
        }
    }

    @Test("Another user by patch is a change of owner like any other") func ownerByPatch() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let moved = try await shop.call("PATCH", path, #"{"user":"grace"}"#)
            #expect(moved.json.number("owner_epoch") == 2)
            #expect(moved.json.text("fence") == "effective")
            #expect(try await running.fences() == [.init(installation: installation(1), epochsBelow: 2)])
            let refused = try await shop.call("PATCH", path, #"{"user":"eve","expected_user":"ada"}"#)
            #expect(refused.status == 409)
            let out = try await shop.call("PATCH", path, #"{"user":null}"#)
            #expect(out.json.number("owner_epoch") == 3 && out.json["user"]?.isNull == true)
        }
    }

    @Test("The entity tag of a state guards it and survives a refresh") func entityTag() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let first = try await shop.register(installation(1), user: "ada", token: token(1))
            let tag = try #require(first.header("etag"))
            let refreshed = try await shop.register(installation(1), user: "ada", token: token(1))
            #expect(refreshed.header("etag") == tag)
            let changed = try await shop.call("PATCH", path, #"{"locale":"fr"}"#, headers: ["if-match": "\"other\", \(tag)"])
            #expect(changed.status == 200)
            let newTag = try #require(changed.header("etag"))
            #expect(newTag != tag)
            let late = try await shop.call("PATCH", path, #"{"locale":"it"}"#, headers: ["if-match": tag])
            #expect(late.status == 412 && late.code == "precondition_failed")
            #expect(try await shop.record(installation(1)).text("locale") == "fr")
            let body = #"{"user":"ada","tokens":[]}"#
            #expect(try await shop.call("PUT", path, body, headers: ["if-match": tag]).status == 412)
            #expect(try await shop.call("PUT", path, body, headers: ["if-match": newTag]).status == 200)
            let unknown = "/v1/apps/shop/installations/\(installation(2))"
            #expect(try await shop.call("PUT", unknown, body, headers: ["if-match": "*"]).status == 412)
            #expect(try await shop.call("PUT", path, body, headers: ["if-match": "*"]).status == 200)
            #expect(try await shop.call("PUT", path, body, headers: ["if-match": "no quotes"]).code == "invalid_entity_tag")
        }
    }

    @Test("A patch cannot change an installation that does not exist") func missingInstallation() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            #expect(try await shop.call("PATCH", path, #"{"locale":"fr"}"#).status == 404)
            try await shop.register(installation(1), user: "ada", token: token(1))
            _ = try await shop.delete(path)
            #expect(try await shop.call("PATCH", path, #"{"locale":"fr"}"#).status == 404)
            let wrong = try await shop.call("PATCH", path, #"{"installation":"x","locale":7,"tokens":null}"#)
            #expect(wrong.status == 400)
            #expect(Set(wrong.problems) == ["/installation unknown_field", "/locale wrong_type", "/tokens wrong_type"])
            let type = try await shop.call("PATCH", path, "{}", headers: ["content-type": "text/plain"])
            #expect(type.status == 415)
            let merge = try await shop.call("PATCH", path, "{}", headers: ["content-type": "application/merge-patch+json"])
            #expect(merge.status == 404)
        }
    }

    @Test("A token alone is enough to deregister the installation where it is active") func byToken() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            try await shop.register(installation(1), user: "ada", token: token(2))
            // The token of before says nothing about the installation any more.
            #expect(try await shop.post("/v1/apps/shop/tokens/deregister", #"{"token":"\#(token(1))"}"#).status == 204)
            #expect(try await shop.get(path).status == 200)
            #expect(try await shop.post("/v1/apps/shop/tokens/deregister", #"{"token":"\#(token(2))"}"#).status == 204)
            #expect(try await shop.get(path).status == 404)
            #expect(try await shop.post("/v1/apps/shop/tokens/deregister", #"{"token":"\#(token(2))"}"#).status == 204)
            #expect(try await running.fences() == [.init(installation: installation(1), epochsBelow: 2)])
        }
    }
}

extension String {
    /// What `register(more:)` appends stands before the body's last brace already.
    fileprivate var dropLastBrace: String { String(dropLast()) }
}
