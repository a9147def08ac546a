import Postgres
import TestDatabase
import Testing

@Suite("Values travel to the server and back in binary", .timeLimit(.minutes(5)))
struct ValueTests {
    /// Sends the value and lets the server write it as text, so that a mistake in encoding cannot cancel one in decoding.
    @Test(
        "The server understands every value",
        arguments: [
            ("SELECT \(true)::text AS text", "true"),
            ("SELECT \(false)::text AS text", "false"),
            ("SELECT \(Int32.min)::text AS text", "-2147483648"),
            ("SELECT \(Int32.max)::text AS text", "2147483647"),
            ("SELECT \(Int64.min)::text AS text", "-9223372036854775808"),
            ("SELECT \(Int64.max)::text AS text", "9223372036854775807"),
            ("SELECT \(Int64(0))::text AS text", "0"),
            ("SELECT \(Int.min)::text AS text", "-9223372036854775808"),
            ("SELECT \(-0.1)::text AS text", "-0.1"),
            ("SELECT \(Double.infinity)::text AS text", "Infinity"),
            ("SELECT \(Double.nan)::text AS text", "NaN"),
            ("SELECT \(Double.greatestFiniteMagnitude)::text AS text", "1.7976931348623157e+308"),
            ("SELECT \("")::text AS text", ""),
            ("SELECT \("Zażółć 🧑‍🚒 e\u{301}")::text AS text", "Zażółć 🧑‍🚒 e\u{301}"),
            ("SELECT \([] as [UInt8])::text AS text", "\\x"),
            ("SELECT \([0, 255, 10] as [UInt8])::text AS text", "\\x00ff0a"),
            ("SELECT \(PostgresUUID(high: 0x0123_4567_89ab_cdef, low: .max))::text AS text", "01234567-89ab-cdef-ffff-ffffffffffff"),
            ("SELECT \(milliseconds: 0)::text AS text", "1970-01-01 00:00:00+00"),
            ("SELECT \(milliseconds: -1)::text AS text", "1969-12-31 23:59:59.999+00"),
            ("SELECT \(milliseconds: 1_700_000_000_123)::text AS text", "2023-11-14 22:13:20.123+00"),
            ("SELECT \(json: #"{"a":[1,null,"ä"]}"#)::text AS text", #"{"a": [1, null, "ä"]}"#),
            ("SELECT \([true, false])::text AS text", "{t,f}"),
            ("SELECT \([.min, 0, .max] as [Int32])::text AS text", "{-2147483648,0,2147483647}"),
            ("SELECT \([] as [Int64])::text AS text", "{}"),
            ("SELECT \([1, 2] as [Int])::text AS text", "{1,2}"),
            ("SELECT \([1.5])::text AS text", "{1.5}"),
            ("SELECT \(["", "a,b", "NULL", "ü"])::text AS text", #"{"","a,b","NULL",ü}"#),
            ("SELECT \([[], [1]] as [[UInt8]])::text AS text", #"{"\\x","\\x01"}"#),
            ("SELECT \([PostgresUUID(high: 0, low: 1)])::text AS text", "{00000000-0000-0000-0000-000000000001}"),
            ("SELECT \(milliseconds: [0])::text AS text", #"{"1970-01-01 00:00:00+00"}"#),
            ("SELECT \([nil] as [Bool?])::text AS text", "{NULL}"),
            ("SELECT \([1, nil] as [Int32?])::text AS text", "{1,NULL}"),
            ("SELECT \([nil, .min] as [Int64?])::text AS text", "{NULL,-9223372036854775808}"),
            ("SELECT \([1, nil] as [Int?])::text AS text", "{1,NULL}"),
            ("SELECT \([nil, 2] as [Double?])::text AS text", "{NULL,2}"),
            ("SELECT \([nil, "", "x"] as [String?])::text AS text", #"{NULL,"",x}"#),
            ("SELECT \([nil, []] as [[UInt8]?])::text AS text", #"{NULL,"\\x"}"#),
            ("SELECT \([nil] as [PostgresUUID?])::text AS text", "{NULL}"),
            ("SELECT \(milliseconds: [nil, 0])::text AS text", #"{NULL,"1970-01-01 00:00:00+00"}"#),
        ] as [(PostgresQuery, String)])
    func serverText(_ query: PostgresQuery, _ text: String) async throws {
        try await withServer { session in
            let understood: String = try session.execute(query).only()["text"]
            #expect(understood == text)
        }
    }

    @Test("Every type comes back equal") func readBack() async throws {
        try await withServer { session in
            try Self.expectBack(true, session)
            try Self.expectBack(Int32.min, session)
            for number in [Int64.min, -1, 0, .max] { try Self.expectBack(number, session) }
            try Self.expectBack(Int.min, session)
            try Self.expectBack(-0.1, session)
            for text in ["", "🧑‍🚒 e\u{301}", String(repeating: "ß", count: 100_000)] { try Self.expectBack(text, session) }
            for bytes in [[], [0, 255], [UInt8](repeating: 7, count: 1_000_000)] { try Self.expectBack(bytes, session) }
            try Self.expectBack(PostgresUUID(high: .max, low: 1), session)
            for time: Int64 in [-62_135_596_800_000, -1, 0, 1_700_000_000_123, 253_402_300_799_999] {
                let back: Int64 = try session.execute("SELECT \(milliseconds: time) AS value").only().milliseconds("value")
                #expect(back == time)
            }
            let json: String = try session.execute("SELECT \(json: "[1,  2]") AS value").only()["value"]
            #expect(json == "[1, 2]")
        }
    }

    @Test("Arrays come back equal") func arraysBack() async throws {
        try await withServer { session in
            try Self.expectBack([true, nil] as [Bool?], session)
            try Self.expectBack([nil, .max] as [Int32?], session)
            try Self.expectBack([.min] as [Int64?], session)
            try Self.expectBack([nil, .min] as [Int?], session)
            try Self.expectBack([0.5, nil] as [Double?], session)
            try Self.expectBack(["", nil, "ä"] as [String?], session)
            try Self.expectBack([[], nil, [1]] as [[UInt8]?], session)
            try Self.expectBack([nil, PostgresUUID(high: 1, low: 2)] as [PostgresUUID?], session)
            try Self.expectBack([false], session)
            try Self.expectBack([1] as [Int32], session)
            try Self.expectBack([.min] as [Int64], session)
            try Self.expectBack([.max] as [Int], session)
            try Self.expectBack([2] as [Double], session)
            try Self.expectBack(["", "b"], session)
            try Self.expectBack([[]] as [[UInt8]], session)
            try Self.expectBack([PostgresUUID(high: 3, low: 4)], session)
            let none: [String] = try session.execute("SELECT '{}'::text[] AS value").only()["value"]
            #expect(none.isEmpty)
        }
    }

    private static func expectBack<Value: PostgresEncodable & PostgresDecodable & Equatable>(
        _ value: Value, _ session: PostgresSession, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let back: Value = try session.execute("SELECT \(value) AS value").only()["value"]
        #expect(back == value, sourceLocation: sourceLocation)
    }

    @Test("Byte strings are the elements of their array") func byteStrings() async throws {
        try await withServer { session in
            let sent: [[UInt8]] = [[], [1, 2], [3]]
            let row = try session.execute(
                """
                SELECT \(sent) AS strings, '{}'::bytea[] AS none, ARRAY[NULL, ''::bytea] AS holed, ARRAY['a'] AS texts,
                    NULL::bytea[] AS nothing
                """
            ).only()
            let (strings, none): (PostgresByteStrings, PostgresByteStrings) = (try row["strings"], try row["none"])
            #expect((0..<strings.count).map { Array(strings[$0]) } == sent)
            #expect(none.count == 0)
            for column: StaticString in ["holed", "texts", "nothing"] {
                #expect(throws: PostgresError.self) { let _: PostgresByteStrings = try row[column] }
            }
        }
    }

    @Test("NULL is nil in the optional form of every type") func nullValues() async throws {
        try await withServer { session in
            try Self.expectNil(Bool.self, session)
            try Self.expectNil(Int32.self, session)
            try Self.expectNil(Int64.self, session)
            try Self.expectNil(Int.self, session)
            try Self.expectNil(Double.self, session)
            try Self.expectNil(String.self, session)
            try Self.expectNil([UInt8].self, session)
            try Self.expectNil(PostgresUUID.self, session)
            try Self.expectNil([String].self, session)
            let moment: Int64? = try session.execute("SELECT \(milliseconds: nil as Int64?) AS value").only().milliseconds("value")
            #expect(moment == nil)
            let json: String? = try session.execute("SELECT NULL::jsonb AS value").only()["value"]
            #expect(json == nil)
        }
    }

    private static func expectNil<Value: PostgresEncodable & PostgresDecodable>(
        _: Value.Type, _ session: PostgresSession, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let row = try session.execute("SELECT v AS value, v IS NULL AS is_null FROM (SELECT \(nil as Value?) AS v) AS sent").only()
        let (back, isNull): (Value?, Bool) = (try row["value"], try row["is_null"])
        #expect(back == nil && isNull, sourceLocation: sourceLocation)
    }

    @Test("Smaller numbers and other text types are widened") func widening() async throws {
        try await withServer { session in
            let row = try session.execute(
                """
                SELECT 7::int2 AS small, 8::int4 AS medium, 0.5::float4 AS half, 'a'::varchar AS a, 'b'::char(3) AS b, 'c'::name AS c,
                       '{"d": 1}'::json AS d, timestamp '1970-01-01 00:00:01' AS moment
                """
            ).only()
            let (narrow, wide, whole): (Int32, Int64, Int) = (try row["small"], try row["small"], try row["small"])
            #expect(narrow == 7 && wide == 7 && whole == 7)
            let (medium, half): (Int64, Double) = (try row["medium"], try row["half"])
            #expect(medium == 8 && half == 0.5)
            let texts: [String] = [try row["a"], try row["b"], try row["c"], try row["d"]]
            #expect(texts == ["a", "b  ", "c", #"{"d": 1}"#])
            let moment: Int64 = try row.milliseconds("moment")
            #expect(moment == 1000)
        }
    }

    @Test("A wrong type is an error that names the column") func wrongType() async throws {
        try await withServer { session in
            let row = try session.execute(
                """
                SELECT 'x'::text AS word, 1::int8 AS big, NULL::text AS nothing, 'infinity'::timestamptz AS never,
                       '{a,NULL}'::text[] AS list, '{{1},{2}}'::int4[] AS square, 1.5::numeric AS exact
                """
            ).only()
            func expectFailure(_ words: String, _ read: () throws(PostgresError) -> Void) {
                do throws(PostgresError) {
                    try read()
                    Issue.record("nothing was thrown for \(words)")
                } catch {
                    #expect(error.code == .decoding)
                    #expect(error.message.contains(words))
                }
            }
            expectFailure("column 0 (word) is text, not int8") { () throws(PostgresError) in let _: Int64 = try row["word"] }
            expectFailure("column 1 (big) is int8, not int4") { () throws(PostgresError) in let _: Int32 = try row["big"] }
            expectFailure("column 1 (big) is int8, not text") { () throws(PostgresError) in let _: String? = try row["big"] }
            expectFailure("column 2 (nothing) is NULL") { () throws(PostgresError) in let _: String = try row["nothing"] }
            expectFailure("column 3 (never)") { () throws(PostgresError) in let _: Int64 = try row.milliseconds("never") }
            expectFailure("column 4 (list) has a NULL element") { () throws(PostgresError) in let _: [String] = try row["list"] }
            expectFailure("column 4 (list) is text[], not a flat array of int8") { () throws(PostgresError) in
                let _: [Int64] = try row["list"]
            }
            expectFailure("column 5 (square)") { () throws(PostgresError) in let _: [Int32] = try row["square"] }
            expectFailure("is numeric") { () throws(PostgresError) in let _: Double = try row["exact"] }
            expectFailure("is int8, not a flat array") { () throws(PostgresError) in let _: [Int64] = try row["big"] }
            expectFailure("no column nowhere") { () throws(PostgresError) in let _: String = try row["nowhere"] }
            expectFailure("2 rows") { () throws(PostgresError) in _ = try session.execute("SELECT generate_series(1, 2)").only() }
        }
    }

    @Test("A time outside the range is an error, and the session still works", arguments: [Int64.min, Int64.max, 9_224_318_016_000_000])
    func outOfRange(_ milliseconds: Int64) async throws {
        try await withServer { session in
            let error = #expect(throws: PostgresError.self) {
                try session.pipeline(["SELECT 1", "SELECT \(milliseconds: [milliseconds])"])
            }
            #expect(error?.code == .invalidParameter)
            let one: Int32 = try session.execute("SELECT 1 AS one").only()["one"]
            #expect(one == 1)
        }
    }

    @Test("The server refuses text with a NUL character") func nulCharacter() async throws {
        try await withServer { session in
            let error = #expect(throws: PostgresError.self) { try session.execute("SELECT \("a\0b")") }
            #expect(error?.code == .sqlState(SQLState("22021")))
        }
    }

    @Test("A value shows only its type") func hiddenValue() {
        let value = PostgresValue.text("secret")
        var dumped = ""
        dump(value, to: &dumped)
        for text in ["\(value)", String(reflecting: value), dumped, "\([value])"] { #expect(!text.contains("secret")) }
    }

    @Test("Rows are a collection and hold the number of affected rows") func rowCollection() async throws {
        try await withServer { session in
            try session.execute("CREATE TEMPORARY TABLE numbers (n int8)")
            let inserted = try session.execute("INSERT INTO numbers SELECT generate_series(1, 5)").affected
            let updated = try session.execute("UPDATE numbers SET n = n * 10 WHERE n > 3").affected
            #expect(inserted == 5 && updated == 2)
            let rows = try session.execute("SELECT n FROM numbers ORDER BY n")
            let numbers: [Int64] = try rows.map { row in try row["n"] }
            #expect(numbers == [1, 2, 3, 40, 50])
            #expect(rows.affected == 5)
            let none = try session.execute("SELECT n FROM numbers WHERE n > 1000")
            #expect(none.isEmpty && none.first == nil)
        }
    }

    private func withServer(_ body: @escaping @Sendable (PostgresSession) throws -> Void) async throws {
        try await withPool(TestServer.uri()) { pool in try await pool.session(body) }
    }
}
