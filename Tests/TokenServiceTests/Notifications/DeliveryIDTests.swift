import Postgres
import PushModel
import TestDatabase
import Testing
import TokenService
import TokenServiceSending

@Suite("The id of a delivery", .timeLimit(.minutes(5)))
struct DeliveryIDTests {
    private static let notification = PushID(high: 0x0190_a000_0000_7000, low: 0x8000_0000_0000_0002)

    @Test("It is a UUID of version 8 that names its place, and PostgreSQL makes the same one") func places() async throws {
        try await withTestDatabase { pool, _ in
            try await Schema.migrator().migrate(pool)
            let names = DeliveryNames(Self.notification)
            let places = [(0, 0), (0, 99), (1, 0), (65_536, 7), (Int(Int32.max), 99)]
            let made: [PushID] = try await pool.session { session in
                try session.execute(
                    """
                    SELECT delivery_id(\(Self.notification), number::int, position::int) AS id
                    FROM unnest(\(places.map(\.0))::bigint[], \(places.map(\.1))::bigint[]) WITH ORDINALITY AS e (number, position, place)
                    ORDER BY place
                    """
                ).column("id")
            }
            #expect(made == places.map { names.id(job: $0.0, position: $0.1) })
            #expect(Set(made).count == places.count)
            for (id, place) in zip(made, places) {
                let found = DeliveryNames.place(of: id)
                #expect(found.job == place.0 && found.position == place.1)
                let text = Array(id.description)
                #expect(text[14] == "8" && "89ab".contains(text[19]))
            }
            #expect(DeliveryNames(.random()).id(job: 0, position: 0) != made[0])
        }
    }
}
