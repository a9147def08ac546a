import Postgres
import PushModel
import StrictJSON
import Testing
import TokenServiceApps
import TokenServiceRegistry

@Suite("Lists of installations", .serialized, .timeLimit(.minutes(5)))
struct InstallationListTests {
    /// One installation as the database has it, and as a filter should see it.
    private struct Sample {
        let id: PushID
        let user: String?
        let tag: String?
        let isThrottled: Bool
        let isStale: Bool
        let hasToken: Bool
        let permission: String?
        /// Day of January 2026 on which it was last seen.
        let day: Int

        init(_ number: Int) {
            id = PushID.random()
            user = [nil, "ada", "ada", "grace"][number % 4]
            tag = [nil, "red", "blue"][number % 3]
            isThrottled = number % 5 == 0
            isStale = number % 7 == 0
            hasToken = number % 6 != 0
            permission = [nil, "not_determined", "provisional", "denied", "authorized", "ephemeral"][number / 4 % 6]
            day = 1 + number % 9
        }

        func passes(state: String?, tag wanted: String?, after: Int?, before: Int?) -> Bool {
            let isInState =
                switch state {
                case "signed_in": user != nil
                case "signed_out": user == nil
                case "throttled": isThrottled
                case "stale": isStale
                case "unreachable": !hasToken
                default: true
                }
            return isInState && (wanted == nil || tag == wanted) && day >= after ?? 0 && day < before ?? 99
        }
    }

    @Test("Every filter, alone and combined, for an app and for a user, page by page") func everyFilter() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let samples = (0..<150).map(Sample.init)
            try await Self.insert(samples, into: running)
            for state in [nil, "signed_in", "signed_out", "throttled", "stale", "unreachable"] {
                for tag in [nil, "red", "blue", "green"] {
                    for (after, before) in [(nil, nil), (4, nil), (nil, 6), (3, 7), (7, 3)] as [(Int?, Int?)] {
                        let words = [
                            state.map { "state=\($0)" }, tag.map { "tag=\($0)" },
                            after.map { "seen_after=2026-01-0\($0)T00:00:00Z" },
                            before.map { "seen_before=2026-01-0\($0)T01:00:00%2B01:00" },
                        ]
                        let query = (words.compactMap { $0 } + ["limit=7"]).joined(separator: "&")
                        let expected = samples.filter { $0.passes(state: state, tag: tag, after: after, before: before) }
                        let all = try await shop.pages("/v1/apps/shop/installations", query)
                        #expect(all.flatMap { $0 } == expected.map(\.id).sorted().map(\.description), "\(query)")
                        #expect(all.dropLast().allSatisfy { $0.count == 7 }, "\(query)")
                        let adas = try await shop.pages("/v1/apps/shop/users/ada/installations", query)
                        #expect(
                            adas.flatMap { $0 } == expected.filter { $0.user == "ada" }.map(\.id).sorted().map(\.description), "\(query)")
                    }
                }
            }
        }
    }

    @Test("A page of installations with many tokens ends early, and the next ones have all the others") func manyTokens() async throws {
        try await RunningService.run { running in
            _ = try await running.client.makeApp()
            let app = try await running.app()
            try await running.fill(13, app: app, owner: "ada", tag: "red")
            try await running.execute(
                """
                INSERT INTO tokens (
                    app_id, environment, purpose, token, installation, ordinal, registered_at, state, retired_at, retired_reason)
                SELECT app_id, 'production', 'alert', sha256(uuid_send(id) || int4send(n)), id, ordinal, now(), 'retired', now(), 'replaced'
                FROM installations, generate_series(1, 10) AS n
                """)
            let lists = [
                InstallationList(user: "ada"), InstallationList(user: "ada", filter: InstallationFilter(state: .signedIn)),
                InstallationList(), InstallationList(filter: InstallationFilter(tag: "red")),
            ]
            for list in lists {
                var pages: [InstallationList.Page] = []
                repeat {
                    pages.append(
                        try await running.pool.transaction(isolation: .repeatableRead) { [position = pages.last?.next] session in
                            try InstallationStore(session: session, app: app, bytesPerPage: 20_000).page(
                                of: list, from: position, limit: 100)
                        })
                } while pages.last?.next != nil && pages.count < 20
                #expect(pages.map(\.records.count) == [4, 4, 4, 1], "\(list)")
                let records = pages.flatMap(\.records)
                #expect(records.map(\.id) == (1...13).map { installation($0) }, "\(list)")
                #expect(records.allSatisfy { $0.tokens.count == 11 && $0.tags == ["red"] }, "\(list)")
            }
            // However many tokens an installation has, its tags are read once.
            #expect(try await running.count("SELECT count(*) FROM installation_records") == 13 + 13 * 11)
            #expect(try await running.count("SELECT count(*) FROM installation_records WHERE tags IS NOT NULL") == 13)
        }
    }

    @Test("A deregistered installation and another app's are in no list") func onlyWhatIsThere() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let blog = try await running.client.makeApp("blog")
            for number in 1...3 {
                try await shop.register(installation(number), user: "ada", token: token(number), tags: ["red"])
            }
            try await blog.register(installation(9), user: "ada", token: token(9), app: "blog", tags: ["red"])
            _ = try await shop.delete("/v1/apps/shop/installations/\(installation(2))")
            for query in ["", "tag=red"] {
                #expect(
                    try await shop.pages("/v1/apps/shop/installations", query) == [
                        [installation(1).description, installation(3).description]
                    ])
                #expect(try await blog.pages("/v1/apps/blog/installations", query) == [[installation(9).description]])
            }
            #expect(try await shop.pages("/v1/apps/shop/installations", "state=signed_out") == [[]])
        }
    }

    @Test("The records of a list are those of single reads") func sameRecords() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await shop.register(
                installation(1), user: "ada", token: token(1), more: #","locale":"de-AT","app_tags":["green"],"os_version":"19.1""#,
                tags: ["red", "blue"])
            try await shop.register(installation(1), user: "ada", token: token(2))
            try await shop.register(installation(2), user: "ada", token: token(3))
            _ = try await shop.put("/v1/apps/shop/installations/\(installation(3))", #"{"user":"ada","tokens":[]}"#)
            try await shop.register(installation(4), user: "grace", token: token(4))
            try await shop.register(installation(4), user: "ada", token: token(4))
            // A slow broker may confirm it only after the answer; then it stays so.
            _ = try await eventually { try await shop.record(installation(4)).text("fence") == "effective" ? true : nil }
            for path in ["/v1/apps/shop/users/ada/installations", "/v1/apps/shop/installations?state=signed_in"] {
                let listed = try await shop.get(path).json["installations"]?.arrayValue ?? []
                #expect(listed.count == 4)
                for (number, record) in zip(1..., listed) {
                    let single = try await shop.record(installation(number)).written
                    #expect(single == record.written, "\(path)")
                }
            }
            #expect(try await shop.record(installation(1)).tokenStates == ["\(hint(2)) active", "\(hint(1)) retired replaced"])
            #expect(try await shop.record(installation(3))["tokens"]?.arrayValue?.isEmpty == true)
            #expect(try await shop.record(installation(3)).text("fence") == "none")
        }
    }

    @Test("A rare filter gives short pages instead of one long search, and loses nothing") func boundedWork() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await running.fill(2 * InstallationStore.scannedPerPage + 100, app: running.app(), owner: "ada")
            try await running.execute(
                "UPDATE installations SET stale_since = now() WHERE id = (SELECT max(id::text)::uuid FROM installations)")
            for path in ["/v1/apps/shop/installations", "/v1/apps/shop/users/ada/installations"] {
                let pages = try await shop.pages(path, "state=stale&limit=10")
                #expect(pages.map(\.count) == [0, 0, 1], "\(path)")
            }
        }
    }

    @Test("A rare tag is found at once, a common one by a scan: both in whole") func tags() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            try await running.fill(2 * InstallationStore.scannedPerPage + 100, app: running.app())
            try await running.execute("UPDATE installations SET tags = '{common}'")
            try await running.execute(
                "UPDATE installations SET tags = '{common,rare}' WHERE id IN (SELECT id FROM installations ORDER BY id DESC LIMIT 30)")
            let rare = try await shop.pages("/v1/apps/shop/installations", "tag=rare&limit=20")
            #expect(rare.map(\.count) == [20, 10])
            let common = try await shop.pages("/v1/apps/shop/installations", "tag=common&limit=1000")
            #expect(common.flatMap { $0 }.count == 2 * InstallationStore.scannedPerPage + 100)
            #expect(Set(common.flatMap { $0 }).count == 2 * InstallationStore.scannedPerPage + 100)
        }
    }

    @Test("By permission, alone and with each other filter, for an app and for a user, page by page") func permissions() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let samples = (0..<150).map(Sample.init)
            try await Self.insert(samples, into: running)
            for permission in ["not_determined", "provisional", "denied", "authorized", "ephemeral", "unknown"] {
                for (more, state, tag) in [("", nil, nil), ("&state=signed_in", "signed_in", nil), ("&tag=red", nil, "red")]
                    as [(String, String?, String?)]
                {
                    let query = "permission=\(permission)&limit=7\(more)"
                    let expected = samples.filter {
                        $0.passes(state: state, tag: tag, after: nil, before: nil) && $0.permission ?? "unknown" == permission
                    }
                    #expect(!expected.isEmpty)
                    let all = try await shop.pages("/v1/apps/shop/installations", query)
                    #expect(all.flatMap { $0 } == expected.map(\.id).sorted().map(\.description), "\(query)")
                    let adas = try await shop.pages("/v1/apps/shop/users/ada/installations", query)
                    #expect(adas.flatMap { $0 } == expected.filter { $0.user == "ada" }.map(\.id).sorted().map(\.description), "\(query)")
                }
            }
            let path = "/v1/apps/shop/installations?permission="
            #expect(try await shop.get("\(path)none").code == "unsupported_value")
            let cursor = try #require(try await shop.get("\(path)denied&limit=1").json.text("next_cursor"))
            #expect(try await shop.get("\(path)unknown&limit=1&cursor=\(cursor)").code == "cursor_of_another_list")
        }
    }

    private static func insert(_ samples: [Sample], into running: RunningService) async throws {
        let app = try await running.app()
        for sample in samples {
            let seen = "2026-01-0\(sample.day)T00:00:00Z"
            let tags = sample.tag.map { [$0, "any"] } ?? []
            try await running.execute(
                """
                INSERT INTO installations (app_id, id, owner, registered_at, created_at, tags, permission, throttled_until, stale_since)
                VALUES (\(app.id), \(sample.id), \(sample.user), \(seen)::text::timestamptz, now(), \(tags), \(sample.permission),
                    now() + CASE WHEN \(sample.isThrottled) THEN interval '1 hour' ELSE interval '-1 hour' END,
                    CASE WHEN \(sample.isStale) THEN now() END)
                """)
            try await running.execute(
                """
                INSERT INTO tokens (app_id, environment, purpose, token, installation, ordinal, registered_at, state, retired_at,
                    retired_reason)
                SELECT \(app.id), 'production', 'alert', sha256(uuid_send(\(sample.id))), \(sample.id),
                    (SELECT ordinal FROM installations WHERE app_id = \(app.id) AND id = \(sample.id)), now(),
                    CASE WHEN \(sample.hasToken) THEN 'active' ELSE 'retired' END,
                    CASE WHEN NOT \(sample.hasToken) THEN now() END, CASE WHEN NOT \(sample.hasToken) THEN 'gone' END
                """)
        }
    }
}
