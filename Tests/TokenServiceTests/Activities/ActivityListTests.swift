import Postgres
import PushModel
import StrictJSON
import Testing

@testable import TokenService
@testable import TokenServiceApps
@testable import TokenServiceRegistry
@testable import TokenServiceSending

@Suite("Lists of very many Live Activities", .serialized, .timeLimit(.minutes(5)))
struct ActivityListTests {
    @Test("A page of a state that few have looks at a limited number, and says where to go on", arguments: [nil, "ada"] as [String?])
    func rareState(user: String?) async throws {
        // The list is read by the test alone.
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            let shop = try await running.client.makeApp()
            let app = try await running.app()
            // Of many users or of one; the last of them has ended.
            try await running.execute(
                """
                INSERT INTO activities (app_id, owner, id, started_at, ended_at)
                SELECT \(app.id), coalesce(\(user)::text, 'u' || lpad(n::text, 5, '0')), 'ride-' || lpad(n::text, 5, '0'),
                    now() - interval '1 minute', CASE WHEN n = 24000 THEN now() END
                FROM generate_series(1, 24000) AS n
                """)
            try await running.execute("ANALYZE update_targets")
            let list = ActivityList(user: user, state: .ended)
            let (found, read) = try await running.service.pool.session { session in
                let store = ActivityReading(session: session, app: app)
                var (pages, reads): ([[String]], [Int64]) = ([], [])
                var next: ActivityList.Place?
                repeat {
                    let before = try session.rowsRead(of: "update_targets")
                    let page = try store.page(of: list, after: next, limit: 100)
                    reads.append(try session.rowsRead(of: "update_targets") - before)
                    pages.append(page.records.map(\.activity.key.id))
                    next = page.next
                } while next != nil
                return (pages, reads)
            }
            #expect(found == [[], [], [], [], ["ride-24000"]])
            // Once for their states, and once for where the page ends.
            #expect(read.allSatisfy { $0 <= 2 * 5000 + 100 }, "\(read)")
            let path = "/v1/apps/shop/activities?state=ended\(user.map { "&user=\($0)" } ?? "")"
            let first = try await shop.get(path).json
            #expect(first["activities"]?.arrayValue?.isEmpty == true)
            let cursor = try #require(first.text("next_cursor"))
            #expect(try await shop.get(path + "&cursor=\(cursor)").json.text("next_cursor") != nil)
        }
    }

    @Test("A crafted cursor with a zero byte in the place's id is no cursor") func zeroByte() async throws {
        try await RunningService.run { running in
            let shop = try await running.client.makeApp()
            let (app, list) = (try await running.app(), ActivityList())
            let good = list.cursor(ActivityList.Place(owner: "u:ada", id: "ride"), app: app)
            #expect(try await shop.get("/v1/apps/shop/activities?cursor=\(good)").status == 200)
            for id in ["ri\0de", "\0", "ride\0"] {
                let crafted = list.cursor(ActivityList.Place(owner: "u:ada", id: id), app: app)
                let answer = try await shop.get("/v1/apps/shop/activities?cursor=\(crafted)")
                #expect(answer.status == 400 && answer.code == "invalid_cursor", "\(answer.json)")
            }
        }
    }
}
