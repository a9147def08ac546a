import Postgres
import TestDatabase
import Testing

@Suite("Queries carry their parameters, rows are read by name", .timeLimit(.minutes(5)))
struct QueryTests {
    private enum Colour: String, PostgresEncodable, PostgresDecodable {
        case red, green
    }

    @Test("Sent values come back") func valuesReturn() async throws {
        try await withServer { session in
            let (flag, number, text, bytes) = (true, Int64.max, "Ä' x", [UInt8](0...255))
            let row = try session.execute(
                """
                SELECT \(flag) AS flag, \(number) AS number, \(text) AS text, \(bytes) AS bytes, \(Colour.green) AS colour,
                    \(nil as Int64?) AS nothing, \(milliseconds: 1_700_000_000_123) AS moment, \([1, nil, 3] as [Int64?]) AS numbers,
                    \(["a", "b"]) AS words, \([bytes, []]) AS strings
                """
            ).only()
            let scalars: (Bool, Int64, String, [UInt8]) = (try row["flag"], try row["number"], try row["text"], try row["bytes"])
            #expect(scalars == (flag, number, text, bytes))
            let (shade, nothing, moment): (Colour, Int64?, Int64) = (try row["colour"], try row["nothing"], try row.milliseconds("moment"))
            #expect(shade == .green && nothing == nil && moment == 1_700_000_000_123)
            let arrays: ([Int64?], [String], [[UInt8]]) = (try row["numbers"], try row["words"], try row["strings"])
            #expect(arrays == ([1, nil, 3], ["a", "b"], [bytes, []]))
        }
    }

    @Test("A part keeps its values among those of the whole") func parts() async throws {
        try await withServer { session in
            func sum(_ numbers: [Int64]) -> PostgresQuery {
                guard let first = numbers.first else { return "0" }
                return "\(first)::bigint * 10 + (\(sum(Array(numbers.dropFirst()))))"
            }
            let row = try session.execute("SELECT \("a") AS before, \(sum(Array(1...12))) AS sum, \("b") AS behind").only()
            let values: (String, Int64, String) = (try row["before"], try row["sum"], try row["behind"])
            #expect(values == ("a", 780, "b"))
        }
    }

    @Test("A value is never part of the SQL text") func noInjection() async throws {
        try await withServer { session in
            let text = "'; DROP TABLE x; --"
            let same: String = try session.execute("SELECT \(text) AS text").only()["text"]
            #expect(same == text)
        }
    }

    @Test("A session prepares a query once per connection") func preparedOnce() async throws {
        try await withServer { session in
            for number in 1...3 { try session.execute("SELECT \(number) + 40 AS sum") }
            let names: [String] = try session.execute("SELECT statement FROM pg_prepared_statements").column("statement")
            #expect(names.filter { $0.contains("+ 40") } == ["SELECT $1 + 40 AS sum"])
        }
    }

    @Test("A decoding error names the column") func namesColumn() async throws {
        try await withServer { session in
            let row = try session.execute("SELECT 'blue' AS colour, NULL::int8 AS number").only()
            let unknown = #expect(throws: PostgresError.self) { let _: Colour = try row["colour"] }
            #expect(unknown?.description.contains("colour") == true && unknown?.description.contains("blue") == false)
            let null = #expect(throws: PostgresError.self) { let _: Int64 = try row["number"] }
            #expect(null?.description.contains("number") == true)
            let missing = #expect(throws: PostgresError.self) { let _: Int64 = try row["nowhere"] }
            #expect(missing?.description.contains("nowhere") == true)
        }
    }

    private func withServer(_ body: @escaping @Sendable (PostgresSession) throws -> Void) async throws {
        try await withPool(TestServer.uri(), { $0.poolSize = 1 }) { pool in try await pool.session(body) }
    }
}
