import Postgres
import TestDatabase
import Testing

@Suite("Values travel to the server and back in binary", .timeLimit(.minutes(5)))
struct ValueTests {
    /// Sends the value, and has the server say what it received, in its own words: a mistake in encoding cannot cancel one in decoding.
    @Test(arguments: [
        (PostgresValue.bool(true), "true"), (.bool(false), "false"),
        (.int32(.min), "-2147483648"), (.int32(.max), "2147483647"),
        (.int64(.min), "-9223372036854775808"), (.int64(.max), "9223372036854775807"), (.int64(0), "0"),
        (.double(-0.1), "-0.1"), (.double(.infinity), "Infinity"), (.double(.nan), "NaN"),
        (.double(.greatestFiniteMagnitude), "1.7976931348623157e+308"),
        (.text(""), ""), (.text("Zażółć 🧑‍🚒 e\u{301}"), "Zażółć 🧑‍🚒 e\u{301}"),
        (.bytes([]), "\\x"), (.bytes([0, 255, 10]), "\\x00ff0a"),
        (.uuid(high: 0x0123_4567_89ab_cdef, low: .max), "01234567-89ab-cdef-ffff-ffffffffffff"),
        (.timestamp(milliseconds: 0), "1970-01-01 00:00:00+00"), (.timestamp(milliseconds: -1), "1969-12-31 23:59:59.999+00"),
        (.timestamp(milliseconds: 1_700_000_000_123), "2023-11-14 22:13:20.123+00"),
        (.jsonb(#"{"a":[1,null,"ä"]}"#), #"{"a": [1, null, "ä"]}"#),
        (.boolArray([true, false]), "{t,f}"), (.int32Array([.min, 0, .max]), "{-2147483648,0,2147483647}"),
        (.int64Array([]), "{}"), (.doubleArray([1.5]), "{1.5}"), (.textArray(["", "a,b", "NULL", "ü"]), #"{"","a,b","NULL",ü}"#),
        (.bytesArray([[], [1]]), #"{"\\x","\\x01"}"#),
        (.uuidArray([PostgresUUID(high: 0, low: 1)]), "{00000000-0000-0000-0000-000000000001}"),
        (.timestampArray([0]), #"{"1970-01-01 00:00:00+00"}"#), (.jsonbArray(["1", "[]"]), "{1,[]}"),
        (.optionalBoolArray([nil]), "{NULL}"), (.optionalInt32Array([1, nil]), "{1,NULL}"),
        (.optionalInt64Array([nil, .min]), "{NULL,-9223372036854775808}"),
        (.optionalDoubleArray([nil, 2]), "{NULL,2}"), (.optionalTextArray([nil, "", "x"]), #"{NULL,"",x}"#),
        (.optionalBytesArray([nil, []]), #"{NULL,"\\x"}"#),
        (.optionalUUIDArray([nil]), "{NULL}"), (.optionalTimestampArray([nil, 0]), #"{NULL,"1970-01-01 00:00:00+00"}"#),
        (.optionalJSONBArray([nil, "{}"]), #"{NULL,"{}"}"#),
    ])
    func isUnderstoodByTheServer(_ value: PostgresValue, _ text: String) async throws {
        try await withServer { session in
            let row = try session.execute("SELECT $1::text", [value]).only()
            try #expect(row.text(0) == text)
        }
    }

    @Test func everyTypeIsReadBack() async throws {
        try await withServer { session in
            try #expect(session.execute("SELECT $1", [.bool(true)]).only().bool(0))
            try #expect(session.execute("SELECT $1", [.int32(.min)]).only().int32(0) == .min)
            for number in [Int64.min, -1, 0, .max] { try #expect(session.execute("SELECT $1", [.int64(number)]).only().int64(0) == number) }
            try #expect(session.execute("SELECT $1", [.double(-0.1)]).only().double(0) == -0.1)
            for text in ["", "🧑‍🚒 e\u{301}", String(repeating: "ß", count: 100_000)] {
                try #expect(session.execute("SELECT $1", [.text(text)]).only().text(0) == text)
            }
            for bytes in [[], [0, 255], [UInt8](repeating: 7, count: 1_000_000)] {
                try #expect(session.execute("SELECT $1", [.bytes(bytes)]).only().bytes(0) == bytes)
            }
            let id = PostgresUUID(high: .max, low: 1)
            try #expect(session.execute("SELECT $1", [.uuid(id)]).only().uuid(0) == id)
            for time: Int64 in [-62_135_596_800_000, -1, 0, 1_700_000_000_123, 253_402_300_799_999] {
                try #expect(session.execute("SELECT $1", [.timestamp(milliseconds: time)]).only().timestampMilliseconds(0) == time)
            }
            try #expect(session.execute("SELECT $1", [.jsonb("[1,  2]")]).only().text(0) == "[1, 2]")
        }
    }

    @Test func arraysAreReadBack() async throws {
        try await withServer { session in
            let row = try session.execute(
                "SELECT $1, $2, $3, $4, $5, $6, $7, $8",
                [
                    .optionalBoolArray([true, nil]), .optionalInt32Array([nil, .max]), .optionalInt64Array([.min]),
                    .optionalDoubleArray([0.5, nil]),
                    .optionalTextArray(["", nil, "ä"]), .optionalBytesArray([[], nil, [1]]),
                    .optionalUUIDArray([nil, PostgresUUID(high: 1, low: 2)]), .optionalTimestampArray([nil, -1]),
                ]
            ).only()
            try #expect(row.optionalBoolArray(0) == [true, nil])
            try #expect(row.optionalInt32Array(1) == [nil, .max])
            try #expect(row.optionalInt64Array(2) == [.min])
            try #expect(row.int64Array(2) == [.min])
            try #expect(row.optionalDoubleArray(3) == [0.5, nil])
            try #expect(row.optionalTextArray(4) == ["", nil, "ä"])
            try #expect(row.optionalBytesArray(5) == [[], nil, [1]])
            try #expect(row.optionalUUIDArray(6) == [nil, PostgresUUID(high: 1, low: 2)])
            try #expect(row.optionalTimestampArray(7) == [nil, -1])
            let plain = try session.execute(
                "SELECT $1, $2, $3, $4, $5, $6, $7, '{}'::text[]",
                [
                    .boolArray([false]), .int32Array([1]), .doubleArray([2]), .textArray(["", "b"]), .bytesArray([[]]),
                    .uuidArray([PostgresUUID(high: 3, low: 4)]), .timestampArray([5]),
                ]
            ).only()
            try #expect(plain.boolArray(0) == [false])
            try #expect(plain.int32Array(1) == [1])
            try #expect(plain.doubleArray(2) == [2])
            try #expect(plain.textArray(3) == ["", "b"])
            try #expect(plain.bytesArray(4) == [[]])
            try #expect(plain.uuidArray(5) == [PostgresUUID(high: 3, low: 4)])
            try #expect(plain.timestampArray(6) == [5])
            try #expect(plain.textArray(7).isEmpty)
        }
    }

    @Test func byteStringsAreTheArraysElements() async throws {
        try await withServer { session in
            let row = try session.execute(
                "SELECT $1, '{}'::bytea[], ARRAY[NULL, ''::bytea], ARRAY['a'], NULL::bytea[]", [.bytesArray([[], [1, 2], [3]])]
            ).only()
            let strings = try row.byteStrings(0)
            #expect((0..<strings.count).map { Array(strings[$0]) } == [[], [1, 2], [3]])
            try #expect(row.byteStrings(1).count == 0)
            for column in 2...4 {
                #expect(throws: PostgresError.self) { try row.byteStrings(column) }
            }
        }
    }

    @Test func nullIsNilInTheOptionalFormsOfEveryType() async throws {
        try await withServer { session in
            let row = try session.execute(
                "SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10::text",
                [
                    .optionalBool(nil), .optionalInt32(nil), .optionalInt64(nil), .optionalDouble(nil), .optionalText(nil),
                    .optionalBytes(nil),
                    .optionalUUID(nil), .optionalTimestamp(milliseconds: nil), .optionalJSONB(nil), .null,
                ]
            ).only()
            for column in 0..<row.columnCount { try #expect(row.isNull(column)) }
            try #expect(row.optionalBool(0) == nil)
            try #expect(row.optionalInt32(1) == nil)
            try #expect(row.optionalInt64(2) == nil)
            try #expect(row.optionalDouble(3) == nil)
            try #expect(row.optionalText(4) == nil)
            try #expect(row.optionalBytes(5) == nil)
            try #expect(row.optionalUUID(6) == nil)
            try #expect(row.optionalTimestampMilliseconds(7) == nil)
            try #expect(row.optionalText(8) == nil)
        }
    }

    @Test func smallerNumbersAndOtherTextsAreWidened() async throws {
        try await withServer { session in
            let row = try session.execute(
                """
                SELECT 7::int2, 8::int4, 0.5::float4, 'a'::varchar, 'b'::char(3), 'c'::name, '{"d": 1}'::json,
                       timestamp '1970-01-01 00:00:01'
                """
            ).only()
            try #expect(row.int32(0) == 7)
            try #expect(row.int64(0) == 7)
            try #expect(row.int64(1) == 8)
            try #expect(row.double(2) == 0.5)
            try #expect(row.text(3) == "a")
            try #expect(row.text(4) == "b  ")
            try #expect(row.text(5) == "c")
            try #expect(row.text(6) == #"{"d": 1}"#)
            try #expect(row.timestampMilliseconds(7) == 1000)
        }
    }

    @Test func aWrongTypeIsAnErrorThatNamesTheColumn() async throws {
        try await withServer { session in
            let row = try session.execute(
                """
                SELECT 'x'::text AS word, 1::int8 AS big, NULL::text AS nothing, 'infinity'::timestamptz AS never,
                       '{a,NULL}'::text[] AS list, '{{1},{2}}'::int4[] AS square, 1.5::numeric
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
            expectFailure("column 0 (word) is text, not int8") { () throws(PostgresError) in _ = try row.int64(0) }
            expectFailure("column 1 (big) is int8, not int4") { () throws(PostgresError) in _ = try row.int32(1) }
            expectFailure("column 1 (big) is int8, not text") { () throws(PostgresError) in _ = try row.optionalText(1) }
            expectFailure("column 2 (nothing) is NULL") { () throws(PostgresError) in _ = try row.text(2) }
            expectFailure("column 3 (never)") { () throws(PostgresError) in _ = try row.timestampMilliseconds(3) }
            expectFailure("column 4 (list) has a NULL element") { () throws(PostgresError) in _ = try row.textArray(4) }
            expectFailure("column 4 (list) is text[], not a flat array of int8") { () throws(PostgresError) in _ = try row.int64Array(4) }
            expectFailure("column 5 (square)") { () throws(PostgresError) in _ = try row.int32Array(5) }
            expectFailure("is numeric") { () throws(PostgresError) in _ = try row.double(6) }
            expectFailure("is int8, not a flat array") { () throws(PostgresError) in _ = try row.int64Array(1) }
            expectFailure("no column 7") { () throws(PostgresError) in _ = try row.text(7) }
            expectFailure("no column -1") { () throws(PostgresError) in _ = try row.isNull(-1) }
            expectFailure("2 rows") { () throws(PostgresError) in _ = try session.execute("SELECT generate_series(1, 2)").only() }
        }
    }

    @Test(arguments: [Int64.min, Int64.max, 9_224_318_016_000_000])
    func aTimeOutsideTheRangeIsAnErrorAndSpoilsNothing(_ milliseconds: Int64) async throws {
        try await withServer { session in
            let error = #expect(throws: PostgresError.self) {
                try session.pipeline([("SELECT 1", []), ("SELECT $1", [.timestampArray([milliseconds])])])
            }
            #expect(error?.code == .invalidParameter)
            try #expect(session.execute("SELECT 1").only().int32(0) == 1)
        }
    }

    @Test func textWithANulCharacterIsRefusedByTheServer() async throws {
        try await withServer { session in
            let error = #expect(throws: PostgresError.self) { try session.execute("SELECT $1", [.text("a\0b")]) }
            #expect(error?.code == .sqlState(SQLState("22021")))
        }
    }

    @Test func aValueShowsItsTypeOnly() {
        let value = PostgresValue.text("secret")
        var dumped = ""
        dump(value, to: &dumped)
        for text in ["\(value)", String(reflecting: value), dumped, "\([value])"] { #expect(!text.contains("secret")) }
    }

    @Test func rowsAreACollectionAndKnowHowManyWereAffected() async throws {
        try await withServer { session in
            try session.execute("CREATE TEMPORARY TABLE numbers (n int8)")
            try #expect(session.execute("INSERT INTO numbers SELECT generate_series(1, 5)").affected == 5)
            try #expect(session.execute("UPDATE numbers SET n = n * 10 WHERE n > 3").affected == 2)
            let rows = try session.execute("SELECT n FROM numbers ORDER BY n")
            try #expect(rows.map { row in try row.int64(0) } == [1, 2, 3, 40, 50])
            #expect(rows.affected == 5)
            let none = try session.execute("SELECT n FROM numbers WHERE n > 1000")
            #expect(none.isEmpty && none.first == nil)
        }
    }

    private func withServer(_ body: @escaping @Sendable (PostgresSession) throws -> Void) async throws {
        try await withPool(TestServer.uri()) { pool in try await pool.session(body) }
    }
}
