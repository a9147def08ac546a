import Postgres
import PushModel
import StrictJSON
import TestDatabase
import TestSupport
import Testing

@Suite("Many installations at once", .serialized, .timeLimit(.minutes(5)))
struct BulkTests {
    @Test("A bulk registration answers each item in order, and a bad item harms no other") func itemAnswers() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(2), user: "ada", token: token(2))
            let items = [
                importLine(1), #"{"id":"nonsense","user":null,"tokens":[],"colour":1}"#, importLine(2, user: "grace"), "17",
                importLine(3, more: #","expected_user":"nobody""#), importLine(1, user: "grace", token: 9),
            ]
            let answer = try await shop.post("/v1/apps/shop/installations", #"{"installations":[\#(items.joined(separator: ","))]}"#)
            #expect(answer.status == 200)
            let results = answer.json["results"]?.arrayValue ?? []
            #expect(results.map { $0.number("status") } == [201, 400, 200, 400, 409, 200])
            #expect(results.map { $0.text("id") } == [1, nil, 2, nil, 3, 1].map { $0.map { installation($0).description } })
            #expect(
                results[1]["error"]?["errors"]?.arrayValue?.compactMap { $0.text("pointer") }.sorted()
                    == ["/installations/1/colour", "/installations/1/id"])
            #expect(results[4]["error"]?.text("code") == "owner_mismatch")
            // Two items for one installation: the later one stands.
            #expect(results[5]["record"]?.text("user") == "grace")
            let record = try await shop.record(installation(1))
            #expect(record.text("user") == "grace" && record.number("owner_epoch") == 2)
            #expect(record.tokenStates == ["\(hint(9)) active", "\(hint(1)) retired replaced"])
            #expect(try await shop.get("/v1/apps/shop/installations/\(installation(3))").status == 404)
        }
    }

    /// Else items of seventy bytes each would ask for hundreds of tokens each.
    @Test("The answer to an item has the tokens that it names") func namedTokens() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for number in 1...5 { try await shop.register(installation(1), user: "ada", token: token(number)) }
            let named: [(String, [String])] = [("", []), (#"{"token":"\#(token(5))"}"#, ["\(hint(5)) active"])]
            for (tokens, expected) in named {
                let item = #"{"id":"\#(installation(1))","user":"ada","tokens":[\#(tokens)]}"#
                let answer = try await shop.post("/v1/apps/shop/installations", #"{"installations":[\#(item)]}"#)
                #expect(answer.json["results"]?[0]?["record"]?.tokenStates == expected)
            }
        }
    }

    @Test("The service refuses a bulk registration without items or with more than a thousand") func itemLimit() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let path = "/v1/apps/shop/installations"
            let thousand = (1...1000).map { importLine($0) }
            let all = try await shop.post(path, #"{"installations":[\#(thousand.joined(separator: ","))]}"#)
            #expect(all.json["results"]?.arrayValue?.allSatisfy { $0.number("status") == 201 } == true)
            #expect(all.json["results"]?.arrayValue?.count == 1000)
            for body in [#"{"installations":[]}"#, #"{"installations":[\#((thousand + ["{}"]).joined(separator: ","))]}"#] {
                let answer = try await shop.post(path, body)
                #expect(answer.status == 400 && answer.problems == ["/installations out_of_range"])
            }
            let huge = try await shop.post(path, #"{"installations":["\#(String(repeating: "x", count: 4 << 20))"]}"#)
            #expect(huge.status == 413)
            #expect(try await shop.put("\(path)/\(installation(1))", String(repeating: " ", count: 65_537)).status == 413)
        }
    }

    @Test("A stream accepts its own parameters and no others") func streamParameters() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for (method, path) in [("POST", "/v1/apps/shop/import"), ("GET", "/v1/apps/shop/export")] {
                let refused = try await shop.call(method, "\(path)?colour=red")
                #expect(refused.status == 400 && refused.code == "unknown_parameter", "\(path)")
            }
            #expect(try await shop.call("POST", "/v1/apps/shop/import?from_line=1&from_line=1").code == "repeated_parameter")
        }
    }

    @Test("An import reports each bad line in order and goes on") func badLines() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let lines = [
                importLine(1), "{", importLine(2), "", importLine(3, more: #","colour":1"#), String(repeating: "x", count: 70_000),
                importLine(4, more: #","expected_user":"nobody""#), #"{"done":true,"count":7}"#, importLine(5),
            ]
            let answer = try await shop.importLines(lines, query: "?from_line=101")
            #expect(answer.status == 200)
            let reported = try answer.lines
            let failures = reported.filter { $0["line"] != nil }
            #expect(failures.map { $0.number("line") } == [102, 105, 106, 107])
            #expect(
                failures.map { $0["error"]?.text("code") } == ["malformed_json", "invalid_request", "line_too_long", "owner_mismatch"])
            #expect(failures[1].text("id") == installation(3).description)
            #expect(failures[1]["error"]?["errors"]?[0]?.text("pointer") == "/colour")
            let last = try #require(reported.last)
            #expect(last["done"]?.boolValue == true)
            #expect(["through", "created", "updated", "failed"].map { last.number($0) } == [109, 3, 0, 4])
            // Every failure stands before the progress that covers it.
            var through: Int64 = 100
            for line in reported where line["done"] == nil {
                if let number = line.number("line") { #expect(number > through) } else { through = line.number("through") ?? 0 }
            }
            #expect(through == 109)
            for number in [1, 2, 5] { #expect(try await shop.record(installation(number)).text("user") == "ada") }
        }
    }

    @Test("An import applies its lines in their order") func lineOrder() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let answer = try await shop.importLines([
                importLine(1, user: "ada"), importLine(2, user: "grace", token: 1), importLine(1, user: "ada", token: 3),
                importLine(1, user: "eve", token: 4),
            ])
            let last = try #require(try answer.lines.last)
            #expect(["created", "updated", "failed"].map { last.number($0) } == [2, 2, 0])
            let first = try await shop.record(installation(1))
            #expect(first.text("user") == "eve")
            #expect(first.tokenStates == ["\(hint(4)) active", "\(hint(3)) retired replaced"])
            #expect(try await shop.record(installation(2)).tokenStates == ["\(hint(1)) active"])
        }
    }

    @Test("An export that is imported into another app is exported from there unchanged") func roundTrip() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let copy = try await running.client.makeApp("copy")
            let profile =
                #"""
                ,"locale":"de-AT","time_zone":"Europe/Vienna","app_version":"1","os_version":"2","device_model":"é\"\\","tags":["a","b"],\#
                "app_tags":["a"]
                """#
            var lines = (1...2500).map { importLine($0, user: $0.isMultiple(of: 3) ? nil : "user \($0 % 100)") }
            lines.append(importLine(2501, more: profile))
            lines.append(#"{"id":"\#(installation(2502))","user":"ada","tokens":[]}"#)
            lines.append(
                #"""
                {"id":"\#(installation(2503))","user":"ada","tokens":[{"token":"ABCD","environment":"sandbox"},{"token":"01",\#
                "purpose":"voip"}]}
                """#
            )
            #expect(try await shop.importLines(lines).lines.last?.number("created") == 2503)
            #expect(try await shop.post("/v1/apps/shop/installations/\(installation(1))/logout").status == 200)
            #expect(try await shop.delete("/v1/apps/shop/installations/\(installation(2))").status == 204)
            try await shop.register(installation(4), user: "ada", token: token(9004))

            let exported = try await shop.export()
            #expect(exported.texts.count == 2503)
            #expect(exported.texts.last == #"{"done":true,"count":2502}"#)
            let imported = try await copy.importLines(exported.texts, app: "copy")
            #expect(try imported.lines.last?.number("created") == 2502)
            #expect(try await copy.export(app: "copy").texts == exported.texts)
            #expect(try await copy.record(installation(1), app: "copy")["user"]?.isNull == true)
            #expect(try await copy.get("/v1/apps/copy/installations/\(installation(2))").status == 404)
            #expect(
                exported.texts.contains { $0.contains(#""token":"abcd","environment":"sandbox""#) && $0.contains(#""purpose":"voip""#) })

            let rest = try await shop.export(query: "?after=\(installation(1500))")
            #expect(rest.texts.dropLast() == exported.texts.dropFirst(1499).dropLast())
            #expect(try await shop.export(query: "?after=x").status == 400)
        }
    }

    @Test("An installation with as many tokens as it may have is imported as it was exported") func manyTokens() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let copy = try await running.client.makeApp("copy")
            for activities in [1...40, 41...64] {
                let tokens = activities.map { #"{"token":"\#(token($0))","purpose":"activity:\#($0)"}"# }.joined(separator: ",")
                let path = "/v1/apps/shop/installations/\(installation(1))"
                #expect(try await shop.put(path, #"{"user":"ada","tokens":[\#(tokens)]}"#).status < 300)
            }
            let exported = try await shop.export()
            let imported = try await copy.importLines(exported.texts, app: "copy")
            #expect(try imported.lines.last?.number("created") == 1, "\(imported.texts)")
            #expect(try await copy.export(app: "copy").texts == exported.texts)
            #expect(try await running.count("SELECT count(*) FROM tokens WHERE state = 'active'") == 128)
        }
    }

    @Test("An import waits for a database that is away for a while") func databaseAway() async throws {
        let proxy = try FaultProxy(port: RunningService.port(of: TestServer.uri()))
        try await RunningService.run(.init(postgresPort: proxy.port)) { running in
            let shop = try await running.client.makeApp()
            let feed = LineFeed()
            try await shop.importing(feed) { answers in
                feed.send((1...10).map { importLine($0) })
                _ = try await answers.first { $0.number("through") == 10 }
                proxy.set(.refusing)
                proxy.cut()
                feed.send((11...20).map { importLine($0) })
                #expect(try await running.client.get("/readyz").status == 503)
                proxy.set(.forwarding)
                let progress = try await answers.first { $0.number("through") == 20 }
                #expect(progress.number("created") == 20 && progress.number("failed") == 0)
                feed.finish()
                _ = try await answers.first { $0["done"]?.boolValue == true }
            }
        }
        proxy.stop()
    }

    @Test("An import that is cut has committed what it reported, and the client may send it again") func cutImport() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let proxy = try FaultProxy(port: running.client.port)
            let throughProxy = APITestClient(port: proxy.port, key: shop.key, databaseURI: shop.databaseURI)
            let feed = LineFeed()
            await #expect(throws: (any Error).self) {
                try await throughProxy.importing(feed) { answers in
                    feed.send((1...600).map { importLine($0) })
                    _ = try await answers.first { $0.number("through") ?? 0 >= 600 }
                    feed.sendText(#"{"id":"\#(installation(601))","user":"#)
                    proxy.cut()
                    while true { _ = try await answers.next() }
                }
            }
            #expect(try await running.count("SELECT count(*) FROM installations") == 600)
            let again = try await shop.importLines((500...700).map { importLine($0) }, query: "?from_line=500")
            let last = try #require(try again.lines.last)
            #expect(["through", "created", "updated", "failed"].map { last.number($0) } == [700, 100, 101, 0])
            proxy.stop()
        }
    }
}
