import Postgres
import PushModel
import TestDatabase
import Testing

@testable import TokenService
@testable import TokenServiceRegistry
@testable import TokenServiceSending

@Suite("PostgreSQL and the service read a job and name its deliveries alike", .timeLimit(.minutes(5)))
struct JobEncodingTests {
    private struct Place: Equatable, Sendable {
        let notification: PushID
        let job: Int
        let position: Int
    }

    @Test("A delivery's id is made of its place, and names it") func deliveryIDs() async throws {
        let extremes = [PushID.lowest, PushID(high: .max, low: .max)].flatMap { notification in
            [0, 1, 65_536, Int(Int32.max)].flatMap { job in
                [0, 99].map { Place(notification: notification, job: job, position: $0) }
            }
        }
        let places =
            extremes
            + (0..<500).map { _ in
                Place(notification: .random(), job: .random(in: 0...Int(Int32.max)), position: .random(in: 0..<PushJob.maximumDeliveries))
            }
        let named = places.map { DeliveryNames($0.notification).id(job: $0.job, position: $0.position) }
        try await withTestDatabase { pool, _ in
            try await Schema.migrator().migrate(pool)
            let ids: [PushID] = try await pool.session { session in
                try session.execute(
                    """
                    SELECT delivery_id(notification, number::int, position::int) AS id
                    FROM unnest(\(places.map(\.notification))::uuid[], \(places.map(\.job))::bigint[], \(places.map(\.position))::bigint[])
                        WITH ORDINALITY AS e (notification, number, position, place)
                    ORDER BY place
                    """
                ).column("id")
            }
            #expect(ids == named)
        }
        for (id, place) in zip(named, places) {
            // A UUID of version 8.
            #expect(id.high & 0xf000 == 0x8000 && id.low >> 62 == 2)
            let found = DeliveryNames.place(of: id)
            #expect(found.job == place.job && found.position == place.position)
        }
        #expect(Set(named).count == Set(places.map { "\($0)" }).count)
    }

    @Test("Members and the bits of those that have their outcome stand in the order of their positions", arguments: [1, 8, 99, 100])
    func members(count: Int) async throws {
        let extremes: [Int64] = [.min, .max, -1, 0, 1]
        let members = Array((extremes + (0..<100).map { _ in Int64.random(in: .min ... .max) }).prefix(count))
        let settled = (0..<count).map { _ in Bool.random() }
        let mask = (0..<100).map { $0 < count && settled[$0] ? "1" : "0" }.joined()
        try await withTestDatabase { pool, _ in
            try await Schema.migrator().migrate(pool)
            try await pool.session { session in
                try session.execute(
                    """
                    INSERT INTO jobs (notification, number, app_id, lane, locale, due_at, members, ended, free_from)
                    VALUES (\(PushID.lowest), 0, 1, 'now', '', now(), \(Job.bytes(of: members)), \(mask)::text::bit(100), now())
                    """)
                let rows = try session.execute("SELECT m.* FROM jobs j CROSS JOIN LATERAL members_of(j) AS m")
                let (positions, tokens): ([Int32], [Int64]) = (try rows.column("position"), try rows.column("token_id"))
                let outcomes: [Bool] = try rows.column("has_ended")
                #expect(positions == Array(0..<Int32(count)))
                #expect(tokens == members)
                #expect(outcomes == settled)

                let places = try session.execute(
                    "SELECT member_at(members, n) AS member, members FROM jobs CROSS JOIN generate_series(0, 100) AS n ORDER BY n")
                let found: [Int64?] = try places.column("member")
                #expect(found == members.map { Optional($0) } + [Int64?](repeating: nil, count: 101 - count))
                let first = try #require(places.first)
                let bytes: [UInt8] = try first["members"]
                #expect(Job.members(of: bytes) == members)
            }
        }
    }
}
