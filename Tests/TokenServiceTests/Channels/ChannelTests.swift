import Observability
import Postgres
import PushModel
import StrictJSON
import Testing

@testable import TokenService
@testable import TokenServiceApps
@testable import TokenServiceSending

@Suite("Broadcast channels: the registry, and Apple", .timeLimit(.minutes(5)))
struct ChannelTests {
    /// A lost answer costs twice this time, and an answer must not take longer. Without it, no answer is lost because the machine is busy.
    private static let losing = ["CHANNELS_COMMAND_TIMEOUT_MS": "1000"]
    private static let path = "/v1/apps/shop/channels"
    private static let body = #"{"environment":"production","storage":"none"}"#

    private static func run(
        _ apple: AppleChannels = AppleChannels(), settings: [String: String] = [:],
        _ body: @escaping @Sendable (RunningService, APITestClient) async throws -> Void
    ) async throws {
        try await RunningService.run(.init(settings: settings)) { running in
            let shop = try await running.client.makeApp()
            try await apple.serve(running) { try await body(running, shop) }
        }
    }

    /// Opens a channel that is not there yet. A request waits for Apple for five seconds only, so a slow machine needs more than one.
    @discardableResult
    private static func open(_ name: String, _ body: String = body, by shop: APITestClient) async throws -> APITestClient.Answer {
        let first = try await shop.put("\(path)/\(name)", body)
        guard first.status == 202 else {
            #expect(first.status == 201, "\(first.json)")
            return first
        }
        let last = try await eventually {
            let answer = try await shop.put("\(path)/\(name)", body)
            return answer.status == 202 ? nil : answer
        }
        #expect(last.status == 200, "\(last.json)")
        return last
    }

    /// The same for the end of a channel that is there.
    private static func delete(_ path: String, by shop: APITestClient) async throws {
        let first = try await shop.delete(path)
        guard first.status == 202 else {
            #expect(first.status == 204, "\(first.json)")
            return
        }
        // A foreign channel that is gone is unknown.
        _ = try await eventually { try await [204, 404].contains(shop.delete(path).status) ? true : nil }
    }

    private static func states(_ shop: APITestClient, _ query: String = "") async throws -> [String] {
        (try await shop.get("\(path)?limit=1000\(query)").json["channels"]?.arrayValue ?? []).map {
            "\($0.text("name") ?? "-") \($0.text("state") ?? "?")"
        }
    }

    @Test("A channel is created once, shown, and deleted once") func oneLife() async throws {
        let apple = AppleChannels()
        try await Self.run(apple) { running, shop in
            let made = try await Self.open("game-1", by: shop)
            #expect(made.json.text("state") == "open" && made.json.text("storage") == "none")
            let id = try #require(made.json.text("channel_id"))
            #expect(apple.channels() == [id: .none])
            let again = try await shop.put("\(Self.path)/game-1", Self.body)
            #expect(again.status == 200 && again.json.text("channel_id") == made.json.text("channel_id"))
            for other in [#"{"environment":"sandbox","storage":"none"}"#, #"{"environment":"production","storage":"latest"}"#] {
                #expect(try await shop.put("\(Self.path)/game-1", other).code == "channel_differs")
            }
            try await Self.open("game-2", #"{"environment":"sandbox","storage":"latest"}"#, by: shop)
            #expect(try await shop.get("\(Self.path)/game-1").json.number("followers") == 0)
            #expect(try await Self.states(shop) == ["game-1 open", "game-2 open"])
            #expect(try await Self.states(shop, "&environment=sandbox&state=open") == ["game-2 open"])
            #expect(try await Self.states(shop, "&state=lost").isEmpty)

            try await Self.delete("\(Self.path)/game-1", by: shop)
            #expect(try await shop.get("\(Self.path)/game-1").status == 404)
            try await Self.delete("\(Self.path)/game-1", by: shop)
            #expect(apple.channels().isEmpty && apple.channels(.sandbox).count == 1)
            #expect(apple.commands.map(\.request.operation) == [.list, .create, .list, .create, .delete])
            #expect(Set(apple.commands.map(\.bundleID)) == ["com.example.shop"])
        }
    }

    @Test("Bodies and queries are checked") func badInput() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let bodies: [(String, [String])] = [
                (#"{"environment":"production"}"#, ["/storage missing"]),
                (#"{"storage":"none"}"#, ["/environment missing"]),
                (#"{"environment":"production","storage":"none","channel_id":"AAAA"}"#, ["/storage conflict"]),
                (#"{"environment":"production","channel_id":"?"}"#, ["/channel_id invalid_channel_id"]),
            ]
            for (body, problems) in bodies { #expect(try await shop.put("\(Self.path)/x", body).problems == problems, "\(body)") }
            #expect(try await shop.delete("\(Self.path)?environment=production").code == "unsupported_value")
            #expect(try await shop.delete("\(Self.path)?channel_id=AAAA").code == "unsupported_value")
            #expect(try await shop.delete("\(Self.path)?channel_id=AAAA&environment=production").status == 404)
            #expect(try await shop.put("\(Self.path)/\(String(repeating: "x", count: 129))", Self.body).code == "invalid_path")
        }
    }

    @Test("Without a dispatcher a create is accepted, and goes on when one comes") func noDispatcher() async throws {
        try await RunningService.run(.init(settings: Self.losing)) { running in
            let shop = try await running.client.makeApp()
            let waiting = try await shop.put("\(Self.path)/game-1", Self.body)
            #expect(waiting.status == 202 && waiting.json.text("state") == "creating" && waiting.json.text("channel_id") == nil)
            // Nothing was asked about it: Apple has never heard of it.
            _ = try await shop.put("\(Self.path)/game-2", Self.body)
            try await Self.delete("\(Self.path)/game-2", by: shop)
            let apple = AppleChannels()
            try await apple.serve(running) {
                _ = try await eventually { try await shop.put("\(Self.path)/game-1", Self.body).status == 200 ? true : nil }
            }
            #expect(apple.channels().count == 1)
        }
    }

    @Test("Channels of other programs are recorded before the first create, and stay until a backend takes or deletes them")
    func foreign() async throws {
        let apple = AppleChannels()
        let (first, second, third) = (apple.make(.latest), apple.make(), apple.make())
        try await Self.run(apple) { running, shop in
            try await Self.open("game-1", by: shop)
            #expect(try await Self.states(shop) == ["game-1 open", "- foreign", "- foreign", "- foreign"])
            let adopted = try await Self.open("old", #"{"environment":"production","channel_id":"\#(first)"}"#, by: shop)
            #expect(adopted.json.text("storage") == "latest" && adopted.json.text("channel_id") == first)
            #expect(
                try await shop.put("\(Self.path)/too", #"{"environment":"production","channel_id":"\#(first)"}"#).code == "channel_differs")
            let id = second.replacing("+", with: "%2B").replacing("/", with: "%2F").replacing("=", with: "%3D")
            try await Self.delete("\(Self.path)?channel_id=\(id)&environment=production", by: shop)
            #expect(Set(apple.channels().keys).isSuperset(of: [first, third]) && apple.channels()[second] == nil)
            // One that the registry does not know is read at Apple.
            let unknown = apple.make()
            try await Self.open("new", #"{"environment":"production","channel_id":"\#(unknown)"}"#, by: shop)
            let none = try await shop.put("\(Self.path)/none", #"{"environment":"production","channel_id":"AAAA"}"#)
            #expect(none.code == "channel_refused" && none.json.text("detail")?.contains("ChannelNotRegistered") == true)
            #expect(try await Self.states(shop, "&state=failed") == ["none failed"])
            try await Self.open("none", by: shop)
        }
    }

    @Test("A channel that Live Activities follow is deleted by force alone") func inUse() async throws {
        let apple = AppleChannels()
        try await Self.run(apple) { running, shop in
            try await Self.open("game-1", by: shop)
            try await shop.register(installation(1), user: "ada", token: token(1))
            for activity in ["a", "b"] {
                try await running.execute(
                    """
                    INSERT INTO activities (app_id, id, installation, started_at, channel)
                    SELECT app_id, \(activity), \(installation(1)), now(), ordinal FROM update_targets WHERE id = 'game-1'
                    """)
            }
            try await running.execute("UPDATE activities SET ended_at = now() WHERE id = 'b'")
            #expect(try await shop.get("\(Self.path)/game-1").json.number("followers") == 1)
            let refused = try await shop.delete("\(Self.path)/game-1")
            #expect(refused.code == "channel_in_use" && refused.json.text("detail")?.hasPrefix("Live Activities follow it") == true)
            #expect(apple.channels().count == 1)
            try await Self.delete("\(Self.path)/game-1?force=true", by: shop)
            #expect(apple.channels().isEmpty)
        }
    }

    @Test("A channel's followers are counted to 10,000, and a deletion looks at one of them, however many there are") func manyFollowers()
        async throws
    {
        try await Self.run { running, shop in
            try await Self.open("game-1", by: shop)
            try await running.execute(
                """
                INSERT INTO activities (app_id, id, owner, started_at, channel)
                SELECT app_id, n::text, 'ada', now() - CASE WHEN n % 2 = 0 THEN interval '9 hours' ELSE interval '1 minute' END, ordinal
                FROM update_targets, generate_series(1, 30000) AS n WHERE id = 'game-1'
                """)
            #expect(try await shop.get("\(Self.path)/game-1").json.number("followers") == 10_000)
            #expect(try await shop.delete("\(Self.path)/game-1").code == "channel_in_use")
            let app = try await running.app()
            for limit in [1, 100, 10_000] {
                let (followers, read) = try await running.service.pool.transaction { session in
                    let channel = try #require(try ChannelReading(session: session, app: app).channel("game-1"))
                    let store = ChannelStore(session: session, app: app.id, environment: channel.environment)
                    let indexes = ["activities_following", "activities_by_channel"]
                    func entries() throws -> Int64 { try indexes.reduce(0) { try $0 + session.entriesReadHere(of: $1) } }
                    let before = try entries()
                    let followers = try store.followers(of: channel, upTo: limit)
                    return (followers, try entries() - before)
                }
                #expect(followers == limit)
                #expect((1...Int64(limit) + 1).contains(read), "\(read) entries for \(limit)")
            }
        }
    }

    @Test("A refusal of Apple is shown, and the next request asks again") func refused() async throws {
        let apple = AppleChannels()
        try await Self.run(apple, settings: Self.losing) { running, shop in
            apple.plan(.refused(400, "FeatureNotEnabled"), .list)
            let refused = try await shop.put("\(Self.path)/game-1", Self.body)
            #expect(refused.code == "channel_refused" && refused.json.text("detail")?.contains("FeatureNotEnabled") == true)
            let failed = try await shop.get("\(Self.path)/game-1").json
            #expect(failed.text("state") == "failed" && failed.text("reason") == "FeatureNotEnabled")
            apple.plan(.refused(400, "CannotCreateChannelConfig"), .create)
            #expect(try await shop.put("\(Self.path)/game-1", Self.body).code == "channel_limit")
            // It has no channel, so its name is free for another environment too.
            try await Self.open("game-1", #"{"environment":"sandbox","storage":"none"}"#, by: shop)
            // These pass.
            for (fault, operation): (AppleChannels.Fault, ChannelOperation) in [
                (.refused(429, "TooManyRequests"), .create), (.refused(503, "Shutdown"), .delete), (.noCredential, .create),
            ] {
                apple.plan(fault, operation)
            }
            try await Self.open("game-2", by: shop)
            try await Self.open("game-3", by: shop)
            try await Self.delete("\(Self.path)/game-2", by: shop)
            #expect(apple.channels().count == 1)
        }
    }

    @Test("Apple's limit is kept without asking Apple") func limit() async throws {
        let apple = AppleChannels()
        try await Self.run(apple) { running, shop in
            try await Self.open("game-1", by: shop)
            try await running.execute(
                """
                INSERT INTO channels (app_id, environment, apple_id, state, created_at, changed_at)
                SELECT app_id, environment, encode(int4send(n), 'base64'), 'foreign', now(), now()
                FROM channel_scopes, generate_series(1, 9999) AS n
                """)
            #expect(try await shop.put("\(Self.path)/game-2", Self.body).code == "channel_limit")
            #expect(apple.commands.count == 2)
            try await Self.open("game-2", #"{"environment":"sandbox","storage":"none"}"#, by: shop)
        }
    }

    @Test("A create without an answer makes no second channel", arguments: [AppleChannels.Fault.answerLost, .unanswered, .late, .repeated])
    func lostAnswer(_ fault: AppleChannels.Fault) async throws {
        let apple = AppleChannels()
        let foreign = apple.make()
        try await Self.run(apple, settings: Self.losing) { running, shop in
            apple.plan(fault, .create)
            let made = try await Self.open("game-1", by: shop)
            let own = try #require(made.json.text("channel_id"))
            #expect(Set(apple.channels().keys) == [foreign, own])
            try await Self.open("game-2", by: shop)
            #expect(apple.channels().count == 3)
            #expect(try await Self.states(shop).sorted() == ["- foreign", "game-1 open", "game-2 open"])
        }
    }

    @Test("A create that Apple never got is made again", arguments: [AppleChannels.Fault.commandLost, .unansweredAndUndone])
    func lostCommand(_ fault: AppleChannels.Fault) async throws {
        let apple = AppleChannels()
        try await Self.run(apple, settings: Self.losing) { running, shop in
            apple.plan(fault, .create)
            try await Self.open("game-1", by: shop)
            #expect(apple.channels().count == 1)
            #expect(apple.commands.map(\.request.operation) == [.list, .create, .list, .create])
        }
    }

    @Test("A name that is given up before Apple answered leaves no channel") func givenUp() async throws {
        let apple = AppleChannels()
        try await Self.run(apple, settings: Self.losing) { running, shop in
            apple.plan(.answerLost, .create)
            async let created = shop.put("\(Self.path)/game-1", Self.body)
            _ = try await eventually { apple.channels().isEmpty ? nil : true }
            try await Self.delete("\(Self.path)/game-1", by: shop)
            let status = try await created.status
            #expect([202, 404, 409].contains(status), "202: not decided in five seconds")
            #expect(apple.channels().isEmpty)
        }
    }

    @Test("A refused read of the new channel makes no second one", arguments: [429, 503]) func refusedRead(status: Int) async throws {
        let apple = AppleChannels()
        try await Self.run(apple, settings: Self.losing) { running, shop in
            apple.plan(.answerLost, .create)
            apple.plan(.refused(status, "TooManyRequests"), .read)
            try await Self.open("game-1", by: shop)
            #expect(apple.channels().count == 1)
        }
    }

    /// Which of them is ours cannot be known, and to take another program's channel is worse than to have one too many.
    @Test("Of several new channels none is taken, and the late answer names ours") func severalCandidates() async throws {
        let apple = AppleChannels()
        try await Self.run(apple, settings: Self.losing) { running, shop in
            try await Self.open("game-1", by: shop)
            // The registry lists them when it looks for the channel of the lost answer, and not before.
            let others = [apple.make(), apple.make(.latest)]
            apple.plan(.held, .create)
            try await Self.open("game-2", by: shop)
            #expect(apple.channels().count == 5)
            #expect(try await Self.states(shop, "&state=foreign").count == 3)
            try await apple.release(running)
            // No name waits for that channel: the platform deletes it, and no other.
            _ = try await eventually { apple.channels().count == 4 ? true : nil }
            #expect(Set(apple.channels().keys).isSuperset(of: others))
            _ = try await eventually {
                try await Self.states(shop).sorted() == ["- foreign", "- foreign", "game-1 open", "game-2 open"] ? true : nil
            }
        }
    }

    @Test("Apple's list decides what is lost, found again and foreign") func reconciliation() async throws {
        let apple = AppleChannels()
        try await Self.run(apple, settings: ["CHANNELS_LIST_INTERVAL_SECONDS": "1"]) { running, shop in
            let id = try #require(try await Self.open("game-1", by: shop).json.text("channel_id"))
            try await Self.open("game-2", by: shop)
            let foreign = apple.make()
            apple.remove(id)
            _ = try await eventually {
                try await Self.states(shop) == ["game-1 lost", "game-2 open", "- foreign"] ? true : nil
            }
            #expect(try await shop.put("\(Self.path)/game-1", Self.body).code == "channel_lost")
            apple.remove(foreign)
            _ = try await eventually { try await Self.states(shop) == ["game-1 lost", "game-2 open"] ? true : nil }
            try await Self.delete("\(Self.path)/game-1", by: shop)
            try await Self.open("game-1", by: shop)
        }
    }

    @Test("The metrics count channels by state, and show the one that waits") func metrics() async throws {
        let apple = AppleChannels()
        try await Self.run(apple) { running, shop in
            try await Self.open("game-1", by: shop)
            try await running.another(.init(settings: Self.losing)) { other in
                try await other.counted(#"channels{environment="production",state="open"}"#, 1)
                #expect(other.metrics.render().contains("push_token_service_channels_largest_share 0.0001\n"))
                #expect(other.metrics.render().contains("push_token_service_channels_pending_seconds 0\n"))
            }
        }
    }

    @Test("A scope that cannot be worked on delays no other one") func failingScope() async throws {
        let apple = AppleChannels()
        try await Self.run(apple) { running, shop in
            try await Self.open("game-1", by: shop)
            let cafe = try await running.client.makeApp("cafe")
            // The plan of the first app is due before all others, and no transaction of the worker can change it.
            try await running.execute("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END'")
            try await running.execute(
                """
                CREATE TRIGGER refuse BEFORE UPDATE ON channel_scopes FOR EACH ROW
                WHEN (OLD.app_id = 1 AND NEW.due_at IS DISTINCT FROM '2001-01-01') EXECUTE FUNCTION refuse()
                """)
            try await running.execute("UPDATE channel_scopes SET due_at = '2001-01-01' WHERE app_id = 1")
            // Each round with a failure costs a second, so the answer may come before the channel is open.
            #expect(try await [201, 202].contains(cafe.put("/v1/apps/cafe/channels/menu", Self.body).status))
            _ = try await eventually { () -> Bool? in
                try await cafe.get("/v1/apps/cafe/channels/menu").json.text("state") == "open" ? true : nil
            }
            #expect(try await running.count("SELECT count(*) FROM channel_scopes WHERE due_at = '2001-01-01'") == 1)
        }
    }

    @Test("Another process goes on when the one that asked Apple has stopped") func secondProcess() async throws {
        let apple = AppleChannels()
        try await RunningService.run(.init(settings: Self.losing)) { first in
            try await first.another(.init(settings: Self.losing)) { second in
                let shop = try await first.client.makeApp()
                try await apple.serve(second) {
                    try await Self.open("game-1", by: shop)
                    await first.stop()
                    let there = APITestClient(port: second.client.port, key: shop.key, databaseURI: shop.databaseURI)
                    _ = try await eventually { try await there.put("\(Self.path)/game-2", Self.body).status < 202 ? true : nil }
                    #expect(apple.channels().count == 2)
                }
            }
        }
    }
}
