import Postgres
import PushModel
import Testing

@testable import TokenService
@testable import TokenServiceApps
@testable import TokenServiceSending

@Suite("A search for tokens among the members of jobs", .serialized, .timeLimit(.minutes(5)))
struct MemberSearchTests {
    private static let jobs: Int64 = 2500

    @Test("It finds every place of each token, and reads each job once, however many tokens there are") func places() async throws {
        try await RunningService.run(.init(without: { $0 is Relay })) { running in
            _ = try await running.client.makeApp()
            let (app, notification) = (try await running.app(), PushID.random())
            // Job n has the tokens 2n and 2n + 1, and 1 at the end.
            try await running.execute(
                """
                INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, free_from, published_at)
                SELECT \(notification), n, \(app.id), 'bulk', '', now(),
                    int8send(2 * n) || int8send(2 * n + 1) || CASE n WHEN \(Self.jobs - 1) THEN int8send(1) ELSE '' END, now(), now()
                FROM generate_series(0::bigint, \(Self.jobs - 1)) AS n
                """)
            let (found, read) = try await running.pool.transaction { session in
                for (name, value) in TokenServiceConfiguration.planning { try session.simple("SET LOCAL \(name) = \(value)") }
                // The bytes of 4 << 8 lie across the border of 4 and 5, too.
                let tokens = Set([1, 2000, 4 << 8] + (10_000..<10_300).map { Int64($0) })
                let before = try session.entriesReadHere(of: "jobs_pkey")
                let found = try MemberSearch(session: session, app: app).places(of: tokens, in: notification)
                return (found, try session.entriesReadHere(of: "jobs_pkey") - before)
            }
            let expected: [(job: Int, position: Int, token: Int64)] = [(0, 1, 1), (512, 0, 4 << 8), (1000, 0, 2000), (2499, 2, 1)]
            #expect(
                found
                    == expected.map {
                        MemberSearch.Found(place: DeliveryPlace(job: $0.job, position: $0.position), token: $0.token)
                    })
            #expect((Self.jobs...Self.jobs + 10).contains(read), "\(read) entries read")
        }
    }
}
