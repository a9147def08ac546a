import PushModel
import StrictJSON
import Testing
import TokenService

@Suite("Pages and their cursors", .serialized, .timeLimit(.minutes(5)))
struct PagingTests {
    @Test("While installations come and go, no row is twice and none lost that was there all along")
    func underConcurrentChanges() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let resident = (0..<120).map { _ in PushID.random() }
            for (number, id) in zip(1..., resident) {
                try await shop.register(id, user: "ada", token: token(number), tags: ["red"])
            }
            let reads = [
                ("/v1/apps/shop/installations", "limit=7"), ("/v1/apps/shop/installations", "limit=7&tag=red"),
                ("/v1/apps/shop/users/ada/installations", "limit=7"), ("/v1/apps/shop/users/ada/installations", "limit=7&state=signed_in"),
            ]
            try await withThrowingTaskGroup(of: Void.self) { tasks in
                for writer in 1...3 {
                    tasks.addTask {
                        var number = writer * 100_000
                        while !Task.isCancelled {
                            number += 1
                            let id = PushID.random()
                            try await shop.register(id, user: "ada", token: token(number), tags: ["red"])
                            if number % 2 == 0 { _ = try await shop.delete("/v1/apps/shop/installations/\(id)") }
                        }
                    }
                }
                for (path, query) in reads {
                    let rows = try await shop.pages(path, query).flatMap { $0 }
                    #expect(Set(rows).count == rows.count, "\(path)?\(query)")
                    #expect(Set(resident.map(\.description)).isSubset(of: rows), "\(path)?\(query)")
                }
                tasks.cancelAll()
                // What a cancelled writer was waiting for is of no interest.
                while let ended = await tasks.nextResult() { _ = ended }
            }
        }
    }

    @Test("A cursor is good for its list and its filters alone") func cursorMisuse() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let blog = try await running.client.makeApp("blog")
            for number in 1...3 {
                try await shop.register(installation(number), user: "ada", token: token(number))
                try await blog.register(installation(number), user: "ada", token: token(number), app: "blog")
            }
            let list = "/v1/apps/shop/installations"
            let cursor = try #require(try await shop.get("\(list)?limit=1&state=signed_in").json.text("next_cursor"))
            #expect(try await shop.get("\(list)?limit=50&state=signed_in&cursor=\(cursor)").status == 200)
            let others = [
                list, "\(list)?state=signed_out", "\(list)?state=signed_in&tag=red",
                "\(list)?state=signed_in&seen_after=2020-01-01T00:00:00Z",
                "\(list)?state=signed_in&seen_before=2090-01-01T00:00:00Z", "/v1/apps/shop/users/ada/installations?state=signed_in",
                "\(list)/\(installation(1))/history",
            ]
            for other in others {
                let answer = try await shop.get("\(other)\(other.contains("?") ? "&" : "?")cursor=\(cursor)")
                #expect(answer.status == 400 && answer.code == "cursor_of_another_list", "\(other)")
            }
            let elsewhere = try await blog.get("/v1/apps/blog/installations?state=signed_in&cursor=\(cursor)")
            #expect(elsewhere.code == "cursor_of_another_list")
            let users = try #require(try await shop.get("/v1/apps/shop/users/ada/installations?limit=1").json.text("next_cursor"))
            #expect(try await shop.get("/v1/apps/shop/users/grace/installations?cursor=\(users)").code == "cursor_of_another_list")
            for damaged in ["", "x", installation(1).description, String(cursor.dropLast()), "\(cursor)AAAA", "B\(cursor.dropFirst())"] {
                let answer = try await shop.get("\(list)?state=signed_in&cursor=\(damaged)")
                #expect(answer.status == 400 && answer.code == "invalid_cursor", "\(damaged)")
            }
        }
    }

    @Test(
        "Wrong and unknown parameters are named",
        arguments: [
            ("limit=0", "out_of_range"), ("limit=1001", "out_of_range"), ("limit=ten", "out_of_range"), ("state=gone", "unsupported_value"),
            ("tag=", "out_of_range"), ("seen_after=yesterday", "invalid_time"), ("seen_before=2026-13-01T00:00:00Z", "invalid_time"),
            ("stat=signed_in", "unknown_parameter"), ("state=stale&state=signed_in", "repeated_parameter"),
            ("tokens=all", "unsupported_value"),
        ])
    func wrongParameters(query: String, code: String) async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            for path in ["/v1/apps/shop/installations", "/v1/apps/shop/users/ada/installations"] {
                let answer = try await shop.get("\(path)?\(query)")
                #expect(answer.status == 400 && answer.code == code, "\(path)?\(query)")
            }
        }
    }
}
