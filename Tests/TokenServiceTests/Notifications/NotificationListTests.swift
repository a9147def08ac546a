import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing
import TokenService
import TokenServiceApps
import TokenServiceSending

@Suite("Lists of notifications", .serialized, .timeLimit(.minutes(5)))
struct NotificationListTests {
    private static let path = "/v1/apps/shop/notifications"
    /// 2026-01-01T00:00:00Z
    private static let newYear: Int64 = 1_767_225_600_000

    /// Nothing but the API: no row changes by itself.
    private static let still = RunningService.Options(without: { $0 is Relay })

    private struct Sample {
        let id: PushID
        let state: String
        let user: String?
        let listed: [String]
        let acceptedAt: Int64

        /// One an hour, the first at the turn of the year.
        init(_ number: Int) {
            acceptedAt = newYear + Int64(number) * 3_600_000
            id = .timeOrdered(milliseconds: acceptedAt)
            state = ["completed", "sending", "no_targets", "cancelled"][number % 4]
            user = [nil, "ada", "grace"][number % 3]
            listed = user == nil ? (number % 2 == 0 ? ["ada", "grace"] : ["grace"]) : []
        }

        func insert(into running: RunningService, app: App) async throws {
            try await running.execute(
                """
                INSERT INTO notifications (id, app_id, lane, push_type, purpose, topic, priority, on_unknown, payload, traceparent,
                    accepted_at,
                    expires_at, state, total, pending, target_user)
                VALUES (\(id), \(app.id), 'soon', 'alert', 'alert', 'com.example.shop', 10, 'resend', '{}', '', \(milliseconds: acceptedAt),
                    \(milliseconds: acceptedAt) + interval '1 day', \(state), 0, 0, \(user))
                """)
            guard user == nil else { return }
            try await running.execute(
                """
                INSERT INTO fan_outs (notification, app_id, lane, target, entries, due_at, ended_at)
                VALUES (\(id), 1, 'soon', 'users', cardinality(\(listed)::text[]), now(), now())
                """)
            try await running.execute(
                """
                INSERT INTO targets (notification, place, app_id, owner)
                SELECT \(id), place, \(app.id), owner FROM unnest(\(listed)::text[]) WITH ORDINALITY AS e (owner, place)
                """)
        }
    }

    private static func pages(_ client: APITestClient, _ query: String, _ path: String = path) async throws -> [[String]] {
        var pages: [[String]] = []
        var cursor: String?
        repeat {
            let words = [query, cursor.map { "cursor=\($0)" } ?? ""].filter { !$0.isEmpty }.joined(separator: "&")
            let answer = try await client.get("\(path)?\(words)")
            try #require(answer.status == 200, "\(words)")
            pages.append(answer.json["notifications"]?.arrayValue?.compactMap { $0.text("id") } ?? [])
            cursor = answer.json.text("next_cursor")
        } while cursor != nil
        return pages
    }

    @Test("Newest first, page by page, by state, time and user in every combination") func everyFilter() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            let blog = try await running.client.makeApp("blog")
            let app = try await running.app()
            let samples = (0..<48).map(Sample.init)
            for sample in samples { try await sample.insert(into: running, app: app) }
            try await Sample(2).insert(into: running, app: running.app("blog"))
            for state in [nil, "completed", "no_targets", "expired"] {
                for user in [nil, "ada", "nobody"] {
                    for (since, until) in [(nil, nil), (5, nil), (nil, 31), (5, 31), (31, 5)] as [(Int?, Int?)] {
                        let words = [
                            state.map { "state=\($0)" }, user.map { "user=\($0)" }, since.map { "since=\(Self.hour($0))" },
                            until.map { "until=\(Self.hour($0))" }, "limit=5",
                        ]
                        let query = words.compactMap { $0 }.joined(separator: "&")
                        let expected = samples.enumerated().filter { number, sample in
                            (state == nil || sample.state == state) && number >= since ?? 0 && number < until ?? 99
                                && (user.map { sample.user == $0 || sample.listed.contains($0) } ?? true)
                        }
                        let found = try await Self.pages(shop, query)
                        #expect(found.flatMap { $0 } == expected.reversed().map(\.element.id.description), "\(query)")
                        #expect(found.dropLast().allSatisfy { $0.count == 5 }, "\(query)")
                    }
                }
            }
            #expect(try await Self.pages(blog, "", "/v1/apps/blog/notifications").flatMap { $0 }.count == 1)
        }
    }

    private static func hour(_ number: Int) -> String { RFC3339.text(milliseconds: newYear + Int64(number) * 3_600_000) }

    @Test("A user's are also those that reached a device while the user was signed in there, and no others")
    func byReceipts() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            try await shop.register(installation(1), user: "ada", token: token(1))
            let hers = try #require(try await shop.send(#"{"installation":"\#(installation(1))"}"#).json.text("id"))
            try await shop.register(installation(1), user: "grace", token: token(1))
            let his = try #require(try await shop.send(#"{"installation":"\#(installation(1))"}"#).json.text("id"))
            let named = try #require(try await shop.send(#"{"user":"ada"}"#).json.text("id"))
            #expect(try await Self.pages(shop, "user=ada").flatMap { $0 } == [named, hers])
            #expect(try await Self.pages(shop, "user=grace").flatMap { $0 } == [his])
            let first = try await shop.get("\(Self.path)?user=ada&limit=1").json["notifications"]?[0]
            #expect(first?["to"]?.written == #"{"kind":"user","user":"ada"}"#)
            #expect(first?.text("state") == "no_targets" && first?.text("receipts") == "all")
        }
    }

    @Test("A rare state gives short pages instead of one long search, and loses nothing") func boundedWork() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            try await Self.fill(2 * NotificationReading.scannedPerPage + 100, running)
            try await running.execute(
                "UPDATE notifications SET state = 'expired' WHERE id = (SELECT id FROM notifications ORDER BY id LIMIT 1)")
            #expect(try await Self.pages(shop, "state=expired&limit=10").map(\.count) == [0, 0, 1])
        }
    }

    @Test("Who is in more lists than a page looks at finds all of them") func commonName() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            let count = 2 * NotificationReading.perSource + 1
            try await Self.fill(count, running)
            try await running.execute(
                "INSERT INTO targets (notification, place, app_id, owner) SELECT id, 1, app_id, 'ada' FROM notifications")
            let found = try await Self.pages(shop, "user=ada&limit=1000").flatMap { $0 }
            #expect(found.count == count && Set(found).count == count)
            #expect(found == found.sorted(by: >))
        }
    }

    private static func fill(_ count: Int, _ running: RunningService) async throws {
        try await running.execute(
            """
            INSERT INTO notifications (id, app_id, lane, push_type, purpose, topic, priority, on_unknown, payload, traceparent, accepted_at,
                expires_at, state, total, pending)
            SELECT ('019b76da-' || lpad(to_hex(n / 65536), 4, '0') || '-7' || lpad(to_hex(n % 4096), 3, '0') || '-8000-'
                    || lpad(to_hex(n), 12, '0'))::uuid,
                \(try await running.app().id), 'bulk', 'alert', 'alert', '', 10, 'resend', '{}', '', now(), now(), 'completed', 0, 0
            FROM generate_series(1, \(Int32(count))::int) AS n
            """)
        try await running.execute(
            """
            INSERT INTO fan_outs (notification, app_id, lane, target, due_at, ended_at)
            SELECT id, app_id, 'bulk', 'all', now(), now() FROM notifications
            """)
    }

    @Test("The status of a notification shows what the list shows of it") func statusOfListed() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            let due = RFC3339.text(milliseconds: UnixClock.now() + 3_600_000)
            let local = String(RFC3339.text(milliseconds: UnixClock.now() + 3 * 86_400_000).prefix(16))
            let stopped = try #require(try await shop.send(#"{"all":true}"#, more: #","not_before":"\#(due)""#).json.text("id"))
            _ = try #require(try await shop.send(#"{"all":true}"#, more: #","local_time":"\#(local)""#).json.text("id"))
            #expect(try await shop.delete("\(Self.path)/\(stopped)").status == 200)
            let listed = try await shop.get(Self.path).json["notifications"]?.arrayValue ?? []
            #expect(listed.map { $0.text("local_time") } == [local, nil])
            #expect(listed.map { $0.text("not_before") } == [nil, due])
            #expect(listed.map { $0.text("cancel_reason") } == [nil, "cancelled"] && listed.last?.text("cancelled_at") != nil)
            for summary in listed {
                let status = try await shop.status(try #require(summary.text("id")))
                for name in [
                    "state", "lane", "push_type", "receipts", "accepted_at", "not_before", "local_time", "expires_at", "completed_at",
                    "cancelled_at", "cancel_reason",
                ] { #expect(status.text(name) == summary.text(name), "\(name)") }
            }
        }
    }

    @Test("A page reads its own notifications alone, however many there are") func ownRows() async throws {
        try await RunningService.run(Self.still) { running in
            _ = try await running.client.makeApp()
            let app = try await running.app()
            try await Self.fill(1000, running)
            try await running.execute("ANALYZE notifications")
            try await running.service.pool.transaction { session in
                let before = try session.entriesReadHere(of: "notifications_by_app")
                let page = try NotificationReading(session: session, app: app).page(of: NotificationList(), from: nil, limit: 10)
                #expect(page.notifications.count == 10 && page.next == page.notifications.last?.id)
                let read = try session.entriesReadHere(of: "notifications_by_app") - before
                #expect(read <= 20, "\(read) entries read")
            }
        }
    }

    @Test("A cursor is for one list and its filters; what is unknown is named") func misuse() async throws {
        try await RunningService.run(Self.still) { running in
            let shop = try await running.client.makeApp()
            for _ in 1...3 { _ = try await shop.send(#"{"user":"ada"}"#) }
            let cursor = try #require(try await shop.get("\(Self.path)?limit=1&user=ada").json.text("next_cursor"))
            #expect(try await shop.get("\(Self.path)?limit=2&user=ada&cursor=\(cursor)").status == 200)
            for other in ["", "user=grace&", "user=ada&state=sending&", "user=ada&since=2026-01-01T00:00:00Z&"] {
                #expect(try await shop.get("\(Self.path)?\(other)cursor=\(cursor)").code == "cursor_of_another_list", "\(other)")
            }
            for (query, code) in [
                ("state=sent", "unsupported_value"), ("since=today", "invalid_time"), ("user=", "out_of_range"),
                ("limit=0", "out_of_range"),
                ("tag=red", "unknown_parameter"), ("cursor=x", "invalid_cursor"),
            ] {
                let answer = try await shop.get("\(Self.path)?\(query)")
                #expect(answer.status == 400 && answer.code == code, "\(query)")
            }
        }
    }
}
