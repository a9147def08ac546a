import Postgres
import PushModel
import StrictJSON
import TestSupport
import Testing

@testable import TokenService
@testable import TokenServiceApps
@testable import TokenServiceKit
@testable import TokenServiceRegistry
@testable import TokenServiceSending
@testable import TokenServiceUpkeep

/// Apps name one user for all devices without a sign-in, such as `guest`.
@Suite("A user with very many installations", .serialized, .timeLimit(.minutes(5)))
struct ManyInstallationsTests {
    private static let count = 2500
    private static let pageSize = 1000

    @Test("An acceptance reads a bounded number of them, and leaves the user to fan-out, even if those have no token")
    func acceptance() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            _ = try await running.client.makeApp()
            let app = try await running.app()
            try await running.fill(Self.count, app: app, owner: "guest")
            // Only the very last one has a token.
            try await running.execute("DELETE FROM tokens WHERE ordinal < (SELECT max(ordinal) FROM tokens)")
            let now = UnixTime.milliseconds()
            let request = try #require(try ParsedRequest(#"{"to":{"user":"guest"},"content":{"alert":"a"}}"#, now: now).request)
            let notification = Notification(
                id: .random(), app: app.slug, topic: app.bundleID, request: request, acceptedAt: now, traceparent: "")
            let item = NotificationStore.Item(notification: notification, app: app, idempotency: nil, leaseSeconds: 0)
            let (accepted, read) = try await running.pool.session { session in
                try session.endOthers()
                let before = try session.entriesRead(of: "installations")
                let accepted = try session.transaction { session in try NotificationStore(session: session).insert([item]) }
                return (accepted, try session.entriesRead(of: "installations") - before)
            }
            #expect(accepted == [.leftToFanOut])
            #expect(read <= NotificationStore.maximumResolved + 10)
        }
    }

    @Test("Fan-out reads them in pages, and each of them once", arguments: [#"{"user":"guest"}"#, #"{"users":["ada","guest","grace"]}"#])
    func pages(to: String) async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await running.fill(Self.count, app: try await running.app(), owner: "guest")
            for (number, user) in [(9001, "ada"), (9002, "grace")] {
                try await shop.register(installation(number), user: user, token: token(number))
            }
            let id = try #require(try await shop.send(to).json.text("id").flatMap { PushID($0) })
            let others = to.contains("ada") ? 2 : 0
            var (reads, tokens): ([Int], [String]) = ([], [])
            while let page = try await Self.page(id, running), reads.count < 10 {
                reads.append(page.read)
                tokens += try page.jobs.flatMap { try $0.deliveries.decoded() }.map(\.token.hex)
            }
            let guests = [Self.pageSize, Self.pageSize, Self.count - 2 * Self.pageSize]
            #expect(reads == (others == 0 ? guests : [1] + guests + [1]))
            #expect(tokens.count == Self.count + others)
            #expect(Set(tokens).count == tokens.count)
            #expect(try await running.number("total", "SELECT total FROM notifications") == Int64(Self.count + others))
            #expect(
                try await running.count("SELECT count(*) FROM fan_outs WHERE ended_at IS NOT NULL AND checkpoint_installation IS NULL") == 1
            )
        }
    }

    @Test("A page of a list counts as many installations as it may have, however many the list's other users have") func counted()
        async throws
    {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await running.fill(5000, app: try await running.app(), owner: "guest")
            try await running.execute("UPDATE installations SET owner = 'u' || (ordinal % 100)")
            try await running.execute("ANALYZE installations")
            let users = (0..<100).map { #""u\#($0)""# }.joined(separator: ",")
            let id = try #require(try await shop.send(#"{"users":[\#(users)]}"#).json.text("id").flatMap { PushID($0) })
            let (places, entries) = try await running.pool.transaction { session in
                for (name, value) in TokenServiceConfiguration.planning { try session.simple("SET LOCAL \(name) = \(value)") }
                let store = FanOutStore(session: session)
                let audience = try #require(try store.fanOut(of: id))
                let before = try session.entriesReadHere(of: "installations_by_owner")
                let page = try store.page(of: audience, installations: 200, names: DeliveryNames(id), now: UnixTime.milliseconds())
                return (page.read, try session.entriesReadHere(of: "installations_by_owner") - before)
            }
            #expect(places == 4)
            // Once to count them and once to read them.
            #expect((200...600).contains(entries), "\(entries)")
        }
    }

    @Test("A broadcast's fallback reads the few devices that show such a user's Live Activities, many activities in a page")
    func broadcast() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await running.insertChannel()
            try await running.fill(Self.count, app: try await running.app(), owner: "guest")
            // Three devices show each of the user's activities, and all other users have tokens of the first one's name.
            let statements: [PostgresQuery] = [
                "UPDATE installations SET owner = 'u' || ordinal WHERE ordinal % 2 = 0",
                """
                INSERT INTO activities (app_id, owner, id, channel, started_at, reported_at)
                SELECT c.app_id, CASE WHEN n > 20 THEN 'u2' ELSE 'guest' END, 'a' || (CASE WHEN n > 20 THEN 1
                    ELSE n END), c.ordinal, now(), now()
                FROM update_targets c, generate_series(1, 21) AS n WHERE c.id = 'game' ORDER BY n
                """,
                """
                INSERT INTO tokens (app_id, environment, purpose, token, installation, ordinal, registered_at)
                SELECT i.app_id, 'production', 'activity:a' || n, sha256(uuid_send(i.id)), i.id, i.ordinal, now()
                FROM installations i, generate_series(1, 20) AS n
                WHERE i.owner = 'guest' AND i.ordinal <= 5 OR i.owner <> 'guest' AND n = 1
                """,
            ]
            for statement in statements { try await running.execute(statement) }
            let id = try await BroadcastTests.send(BroadcastTests.state(1, more: #","fallback":"activities""#), by: shop)
            var (reads, counts, members): ([Int], [Int], [Int64]) = ([], [], [])
            while let page = try await Self.page(id, running), reads.count < 40 {
                reads.append(page.read)
                counts.append(page.count)
                members += page.jobs.flatMap(\.job.members)
            }
            let expected: [[Int]] = [[1, Self.pageSize, 250, 19 * 3, 1, 0], [1, 3, 0, 19 * 3, 1, 0]]
            #expect([reads, counts] == expected)
            #expect(Set(members).count == 62 && members.count == 62)
        }
    }

    /// The test makes the pages. It finds the update waiting, as after another update.
    @Test("An update of a Live Activity of such a user goes in pages, past other users' tokens of its name; a device behind gets a copy")
    func sharedActivity() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            let app = try await running.app()
            try await running.fill(Self.count, app: app, owner: "guest")
            let statements: [PostgresQuery] = [
                "UPDATE installations SET owner = 'u' || ordinal WHERE ordinal % 2 = 0",
                """
                INSERT INTO tokens (app_id, environment, purpose, token, installation, ordinal, registered_at)
                SELECT app_id, 'production', 'activity:ride', sha256(uuid_send(id)), id, ordinal, now()
                FROM installations WHERE owner <> 'guest' AND ordinal <= 500 OR owner = 'guest' AND ordinal > 2400
                """,
                "INSERT INTO activities (app_id, owner, id, started_at, reported_at) VALUES (\(app.id), 'guest', 'ride', now(), now())",
            ]
            for statement in statements { try await running.execute(statement) }
            let update = #"{"to":{"user":"guest","activity":"ride"},"content":{"event":"update","content_state":{"eta":3}}}"#
            let answer = try await shop.post("/v1/apps/shop/notifications", update)
            let id = try #require(answer.json.text("id").flatMap { PushID($0) })
            try await running.execute("UPDATE activities SET sending = NULL, is_waiting = true, free_at = NULL")

            var pages = [try #require(try await Self.page(id, size: 100, running))]
            #expect(try await running.count("SELECT count(*) FROM activities WHERE sending = \(id) AND NOT is_waiting") == 1)
            let first = "/v1/apps/shop/installations/00000000-0000-4000-8000-000000000001/activities/ride"
            #expect(try await shop.put(first, #"{"token":"\#(token(9001))"}"#).status == 200)
            #expect(try await running.count("SELECT count(*) FROM notifications WHERE copy_of = \(id)") == 1)
            // Also while none of its deliveries is pending.
            #expect(try await running.count("SELECT count(*) FROM activities WHERE sending = \(id)") == 1)
            while let page = try await Self.page(id, size: 100, running), pages.count < 10 { pages.append(page) }

            #expect(
                pages.map(\.read) == [100, 100, 99] && pages.map(\.count) == [0, 0, 50] && pages.map(\.isLast) == [false, false, true])
            #expect(try await running.number("total", "SELECT total FROM notifications WHERE id = \(id)") == 50)
        }
    }

    @Test("An update to such a user that ends without a delivery keeps the next one waiting no longer", arguments: [true, false])
    func endedBeforeItsPages(isCancelled: Bool) async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            let app = try await running.app()
            try await running.fill(Self.count, app: app, owner: "guest")
            for statement: PostgresQuery in [
                """
                INSERT INTO tokens (app_id, environment, purpose, token, installation, ordinal, registered_at)
                SELECT app_id, 'production', 'activity:ride', sha256(uuid_send(id)), id, ordinal, now() FROM installations
                    WHERE ordinal <= 5
                """,
                "INSERT INTO activities (app_id, owner, id, started_at, reported_at) VALUES (\(app.id), 'guest', 'ride', now(), now())",
            ] { try await running.execute(statement) }
            var ids: [PushID] = []
            for eta in 1...2 {
                let update = #"{"to":{"user":"guest","activity":"ride"},"content":{"event":"update","content_state":{"eta":\#(eta)}}}"#
                let answer = try await shop.post("/v1/apps/shop/notifications", update)
                ids.append(try #require(answer.json.text("id").flatMap { PushID($0) }))
            }
            let isFree: PostgresQuery = "SELECT count(*) FROM fan_outs WHERE notification = \(ids[1]) AND free_from <= now()"
            #expect(try await running.count("SELECT count(*) FROM activities WHERE sending = \(ids[0]) AND newest = \(ids[1])") == 1)
            #expect(try await running.count(isFree) == 0)
            if isCancelled {
                #expect(try await shop.delete("/v1/apps/shop/notifications/\(ids[0])").json.text("state") == "cancelled")
            } else {
                try await running.execute("UPDATE notifications SET expires_at = now() WHERE id = \(ids[0])")
                while let page = try await Self.page(ids[0], running) { #expect(page.jobs.isEmpty) }
            }
            #expect(try await running.count(isFree) == 1)
        }
    }

    @Test("A sign-out reads a bounded number of them and of their Live Activities, and ends none that another one may show")
    func signOut() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            _ = try await running.client.makeApp()
            let app = try await running.app()
            try await running.fill(2 * Self.count, app: app, owner: "guest")
            // Half of them are of other users, as PostgreSQL expects, and other users' activities live. The activities of `guest` are of an
            // earlier day, but for the one that a device shows which has signed out.
            let statements: [PostgresQuery] = [
                "UPDATE installations SET owner = 'u' || ordinal WHERE ordinal % 2 = 0",
                "UPDATE installations SET owner = NULL WHERE ordinal = (SELECT max(ordinal) FROM installations)",
                """
                INSERT INTO tokens (app_id, environment, purpose, token, installation, ordinal, registered_at)
                SELECT app_id, 'production', 'activity:ride', sha256('ride'), id, ordinal, now() FROM installations WHERE owner IS NULL
                """,
                """
                INSERT INTO activities (app_id, owner, id, is_started_for_user, started_at)
                SELECT \(app.id), 'guest', n::text, true, now() - interval '1 day' FROM generate_series(1, \(Int32(Self.count))::int) AS n
                """,
                "INSERT INTO activities (app_id, owner, id, started_at) VALUES (\(app.id), 'guest', 'ride', now())",
                """
                INSERT INTO activities (app_id, owner, id, is_started_for_user, started_at)
                SELECT app_id, owner, 'lift', true, now() FROM installations WHERE owner <> 'guest'
                """,
                "ANALYZE installations, tokens, update_targets",
            ]
            for statement in statements { try await running.execute(statement) }
            let read = try await running.pool.transaction { session in
                for (name, value) in TokenServiceConfiguration.planning { try session.simple("SET LOCAL \(name) = \(value)") }
                let installation: PushID = try session.execute("SELECT id FROM installations WHERE owner IS NULL").only()["id"]
                func entries() throws -> Int64 {
                    try [
                        "installations_by_owner", "tokens_one_active", "update_targets_pkey", "activities_of_users", "activities_by_start",
                    ]
                    .reduce(0) { try $0 + session.entriesReadHere(of: $1) }
                }
                let before = try entries()
                try session.pipeline(
                    ActivityEnd.insert([ActivityEnd.Place(installation: InstallationKey(app: app.id, id: installation), user: "guest")]))
                return try entries() - before
            }
            #expect(read < 500, "\(read) entries read")
            #expect(try await running.count("SELECT count(*) FROM notifications WHERE push_type = 'liveactivity'") == 1)
            #expect(try await running.count("SELECT count(*) FROM activities WHERE ended_at IS NOT NULL") == 0)
        }
    }

    @Test("Two processes never make the same page of them") func twoProcesses() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            try await running.fill(Self.count, app: try await running.app(), owner: "guest")
            try await running.execute("DELETE FROM tokens")
            let id = try #require(try await shop.send(#"{"user":"guest"}"#).json.text("id").flatMap { PushID($0) })
            let audience = try await running.pool.session { session in
                try #require(try FanOutStore(session: session).fanOut(of: id))
            }
            func makePage() async throws {
                try await running.pool.transaction { session in
                    let (store, now) = (FanOutStore(session: session), UnixTime.milliseconds())
                    let page = try store.page(of: audience, installations: Self.pageSize, names: DeliveryNames(id), now: now)
                    try store.commit(page, of: audience, leaseSeconds: 60, now: now)
                }
            }
            try await makePage()
            // No job tells the two apart.
            await #expect(throws: FanOutTakenOver.self) { try await makePage() }
        }
    }

    @Test("A page of the user's export reads few more deliveries than it has, and the pages have each of them once") func export()
        async throws
    {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            let app = try await running.app()
            try await running.fill(Self.count, app: app, owner: "guest")
            let id = try #require(try await shop.send(#"{"user":"guest"}"#).json.text("id").flatMap { PushID($0) })
            while try await Self.page(id, running) != nil {}
            let (items, read) = try await running.pool.transaction { session in
                for (name, value) in TokenServiceConfiguration.planning { try session.simple("SET LOCAL \(name) = \(value)") }
                let store = UserExportStore(session, app: app, user: "guest")
                // Once for each delivery under way that has no receipt.
                let before = try session.entriesReadHere(of: "tokens_pkey")
                var page = try store.deliveries(of: id, isToMany: false, after: .first)
                let read = try session.entriesReadHere(of: "tokens_pkey") - before
                var items = page.items
                while let next = page.next {
                    page = try store.deliveries(of: id, isToMany: false, after: next)
                    items += page.items
                }
                return (items, read)
            }
            #expect((200...300).contains(read), "\(read) deliveries read")
            #expect(items.count == Self.count && Set(items).count == Self.count)
        }
    }

    /// The user `guest` has the installations. The user `left` has left each of them twice, with no other user between: the second of these
    /// stays includes the first.
    @Test(
        "A page of the user's export looks at a bounded number of installations, and the pages have each row once",
        arguments: [("guest", 5), ("left", 1)] as [(String, Int64)])
    func exportByInstallation(user: String, epoch: Int64) async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            let app = try await running.app()
            try await running.fill(Self.count, app: app, owner: "guest")
            let list = try #require(try await shop.send(#"{"users":["guest","left"]}"#).json.text("id").flatMap { PushID($0) })
            let ids: [String] = try await running.texts("id", "SELECT id::text FROM installations ORDER BY id")
            for id in [String](repeating: ids[0], count: 60) + [ids[Self.count - 1]] {
                #expect(try await shop.send(#"{"installation":"\#(id)"}"#).status == 202)
            }
            for statement: PostgresQuery in [
                "UPDATE installations SET owner_epoch = 5",
                "UPDATE notifications SET target_epoch = \(epoch) WHERE target_installation IS NOT NULL",
                """
                INSERT INTO receipts (notification, number, "position", token_id, installation, owner_epoch, environment, class, updated_at)
                SELECT \(list), t.ordinal / 100, t.ordinal % 100, t.id, t.installation, \(epoch), 'production', 'accepted', now()
                    FROM tokens t
                """,
                "DELETE FROM installation_history",
                """
                INSERT INTO installation_history (app_id, installation, at, event, owner_epoch, owner)
                SELECT app_id, id, now(), 'signed_out', epoch, 'left' FROM installations, unnest(ARRAY[1, 3]) AS epoch ORDER BY epoch, id
                """,
                """
                INSERT INTO installation_history (app_id, installation, at, event, owner_epoch)
                SELECT app_id, id, now(), 'token_added', 5 FROM installations
                """,
                "ANALYZE installations, notifications, receipts, installation_history",
            ] { try await running.execute(statement) }
            try await running.pool.transaction { session in
                for (name, value) in TokenServiceConfiguration.planning { try session.simple("SET LOCAL \(name) = \(value)") }
                let store = UserExportStore(session, app: app, user: user)
                func entries() throws -> Int64 {
                    try ["installations_by_owner", "installation_history_by_owner"].reduce(0) { try $0 + session.entriesReadHere(of: $1) }
                }
                func all(_ page: (UserExportStore.Cursor) throws -> UserExportStore.Page) throws -> [[UInt8]] {
                    var (items, cursor): ([[UInt8]], UserExportStore.Cursor?) = ([], .first)
                    while let from = cursor {
                        let before = try entries()
                        let next = try page(from)
                        let read = try entries() - before
                        #expect(read < 2100, "\(read) entries read")
                        items += next.items
                        cursor = next.next
                    }
                    return items
                }
                let deliveries = try all { try store.deliveries(of: list, isToMany: true, after: $0) }
                #expect(deliveries.count == Self.count && Set(deliveries).count == Self.count)
                let notifications = try all { try store.notifications(after: $0) }
                #expect(notifications.count == 62 && Set(notifications).count == 62)
                // Two lines of each installation name the user who has left it, and one names no user.
                let history = try all { try store.history(after: $0) }
                #expect(history.count == (user == "left" ? 2 : 1) * Self.count)
            }
        }
    }

    /// - Returns: nil when the fan-out is over.
    private static func page(_ id: PushID, size: Int = pageSize, _ running: RunningService) async throws -> PendingFanOut.Page? {
        try await running.pool.transaction { session in
            let (store, now) = (FanOutStore(session: session), UnixTime.milliseconds())
            guard let audience = try store.fanOut(of: id) else { return nil }
            let page = try store.page(of: audience, installations: size, names: DeliveryNames(id), now: now)
            try store.commit(page, of: audience, leaseSeconds: 60, now: now)
            return page
        }
    }
}
