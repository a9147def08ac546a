import StrictJSON
import TestSupport
import Testing

@Suite("Valid JSON texts and their values")
struct JSONValueTests {
    @Test(
        "A text and the value it reads as, written back",
        arguments: [
            ("null", "null"), ("true", "true"), (" false\n", "false"), ("0", "0"), ("-0", "0"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("9223372036854775807", "9223372036854775807"), ("9223372036854775808", "9.223372036854776e+18"), ("1.5", "1.5"),
            ("1e2", "100.0"), ("-2.5E-1", "-0.25"), (#""""#, #""""#), (#""a\/b""#, #""a/b""#), (#""\u0041\u00e9\u20ac""#, #""Aé€""#),
            (#""\ud83d\udce6""#, #""📦""#), (#""\b\f\n\r\t\"\\""#, #""\b\f\n\r\t\"\\""#), (#""\u0000\u001F""#, #""\u0000\u001f""#),
            ("\"\u{7f}é€📦\"", "\"\u{7f}é€📦\""), ("[]", "[]"), ("[ ]", "[]"), ("{}", "{}"), ("[1,[2,{}],\"x\"]", "[1,[2,{}],\"x\"]"),
            (#"{"b":1 , "a" : {"c":[ ]}}"#, #"{"b":1,"a":{"c":[]}}"#), (#"{"":0}"#, #"{"":0}"#), (#"{"a":1,"A":2}"#, #"{"a":1,"A":2}"#),
        ])
    func reads(_ text: String, as expected: String) throws {
        #expect(try rewritten(text) == expected)
    }

    @Test(
        "A text that is refused, and where",
        arguments: [
            ("", 1, 1), ("  \n ", 2, 2), ("nul", 1, 1), ("truex", 1, 5), ("tru", 1, 1), ("1 2", 1, 3), ("[1]]", 1, 4), ("01", 1, 1),
            ("-01", 1, 2), ("-", 1, 2),
            ("+1", 1, 1), (".5", 1, 1), ("1.", 1, 3), ("1.e1", 1, 3), ("1e", 1, 3), ("1e+", 1, 4), ("1e999", 1, 1), ("NaN", 1, 1),
            ("Infinity", 1, 1),
            ("[1,]", 1, 4), ("[,1]", 1, 2), ("[1 2]", 1, 4), ("[", 1, 2), ("[1", 1, 3), ("[1,", 1, 4), ("{", 1, 2), (#"{"a"}"#, 1, 5),
            (#"{"a":}"#, 1, 6),
            (#"{"a":1,}"#, 1, 8), ("{a:1}", 1, 2), (#"{'a':1}"#, 1, 2), (#"{"a":1 "b":2}"#, 1, 8), ("{1:2}", 1, 2), ("]", 1, 1),
            ("[}", 1, 2), ("{]", 1, 2),
            (#""abc"#, 1, 5), ("\"a\nb\"", 1, 3), ("\"\t\"", 1, 2), (#""\x""#, 1, 2), (#""\u12g4""#, 1, 2), (#""\u12"#, 1, 2),
            (#""\"#, 1, 2),
            (#""\ud800""#, 1, 2), (#""\ud800x""#, 1, 2), (#""\udc00""#, 1, 2), (#""\udc00\udc00""#, 1, 2), (#""\ud800\u0041""#, 1, 2),
            (#""\ud800\ud800""#, 1, 2),
            (#"{"a":1,"a":2}"#, 1, 12), (#"{"a":1,"\u0061":2}"#, 1, 17), (#"[{"k":{"x":0,"x":0}}]"#, 1, 18), ("// no\n1", 1, 1),
            ("\u{feff}1", 1, 1),
            ("{\n  \"a\": 1,\n  \"b\": tru\n}", 3, 8), ("[1]\u{0}", 1, 4),
        ])
    func refuses(_ text: String, line: Int, column: Int) throws {
        let error = try #require(throws: JSONError.self) { try JSONValue.parse(Array(text.utf8)) }
        #expect((error.line, error.column) == (line, column), "\(error)")
        var scanner = JSONScanner(Array(text.utf8))
        #expect(throws: JSONError.self, "passing over a value is as strict as reading it") {
            try scanner.skipValue()
            try scanner.finish()
        }
    }

    @Test(
        "Bytes that are not UTF-8 are refused where they stand",
        arguments: [
            [0x80], [0xc0, 0x80], [0xc1, 0xbf], [0xc3], [0xc3, 0x28], [0xe0, 0x9f, 0xbf], [0xe2, 0x82], [0xe2, 0x28, 0xa1],
            [0xed, 0xa0, 0x80],
            [0xf0, 0x8f, 0xbf, 0xbf], [0xf0, 0x9f, 0x93], [0xf4, 0x90, 0x80, 0x80], [0xf5, 0x80, 0x80, 0x80], [0xff], [0xfe],
        ] as [[UInt8]])
    func refusesBrokenUTF8(_ bytes: [UInt8]) throws {
        let text = Array(#"["ok","#.utf8) + [UInt8(ascii: "\"")] + bytes + Array("\"]".utf8)
        let error = try #require(throws: JSONError.self) { try JSONValue.parse(text) }
        #expect(error.offset == 7)
        #expect(error.message == "not UTF-8")
    }

    @Test("Every scalar of Unicode is read and written back unchanged")
    func keepsEveryScalar() throws {
        var all = ""
        for value in UInt32(0x20)...0x10ffff {
            if let scalar = Unicode.Scalar(value) { all.unicodeScalars.append(scalar) }
        }
        var writer = JSONWriter()
        writer.value(all)
        let value = try JSONValue.parse(writer.bytes, maximumBytes: .max)
        #expect(value.stringValue?.utf8.elementsEqual(all.utf8) == true)
    }

    @Test("Arrays and objects nest 32 deep and no deeper")
    func limitsDepth() throws {
        func nested(_ depth: Int) -> [UInt8] {
            Array((String(repeating: #"[{"a":"#, count: depth / 2) + "0" + String(repeating: "}]", count: depth / 2)).utf8)
        }
        #expect(try JSONValue.parse(nested(32)).typeName == "an array")
        #expect(throws: JSONError.self) { try JSONValue.parse(nested(34)) }
        #expect(throws: JSONError.self) { try JSONValue.parse(nested(32), maximumDepth: 31) }
        #expect(throws: JSONError.self, "and this is no stack overflow") { try JSONValue.parse(nested(1_000_000)) }
    }

    @Test("A text longer than the limit is refused before it is read")
    func limitsSize() throws {
        #expect(try JSONValue.parse(Array("[1]".utf8), maximumBytes: 3).range == 0..<3)
        #expect(throws: JSONError.self) { try JSONValue.parse(Array("[1]".utf8), maximumBytes: 2) }
    }

    @Test("Values are counted where they are limited, on every level")
    func limitsValues() throws {
        let text = Array(#"[1,{"a":[2,3]}]"#.utf8)
        #expect(try JSONValue.parse(text, maximumValues: 6).arrayValue?.count == 2)
        #expect(throws: JSONError.self) { try JSONValue.parse(text, maximumValues: 5) }
    }

    @Test("A name twice is found among many names too")
    func findsTheSameNameAmongMany() throws {
        let names = (0..<1000).map { "\"n\($0)\":0" }
        #expect(try JSONValue.parse(Array("{\(names.joined(separator: ","))}".utf8)).objectValue?.count == 1000)
        #expect(throws: JSONError.self) { try JSONValue.parse(Array("{\((names + ["\"n5\":1"]).joined(separator: ","))}".utf8)) }
        #expect(throws: JSONError.self) { try JSONValue.parse(Array("{\((names + ["\"n999\":1"]).joined(separator: ","))}".utf8)) }
    }

    @Test("A value's range holds its bytes verbatim, without the blanks around it")
    func keepsRanges() throws {
        let text = #"{ "payload" : { "aps":{ "alert" : "a\/b" } , "n":1.0 } , "x": [ 1 , "é" ] }"#
        let source = Array(text.utf8)
        let value = try JSONValue.parse(source)
        func bytes(_ value: JSONValue?) -> String? { value.map { String(decoding: source[$0.range], as: UTF8.self) } }
        #expect(bytes(value["payload"]) == #"{ "aps":{ "alert" : "a\/b" } , "n":1.0 }"#)
        #expect(bytes(value["payload"]?["aps"]?["alert"]) == #""a\/b""#)
        #expect(bytes(value["payload"]?["n"]) == "1.0")
        #expect(bytes(value["x"]?[1]) == #""é""#)
        #expect(value["y"] == nil)
        #expect(value["x"]?[2] == nil)
    }

    @Test(
        "A byte order mark is named, before the text and before any value in it", arguments: ["\u{feff}{}", " \u{feff}1", "[1,\u{feff}2]"])
    func byteOrderMark(text: String) {
        let error = #expect(throws: JSONError.self) { try JSONValue.parse(Array(text.utf8)) }
        #expect(error?.message == "a byte order mark (BOM, EF BB BF) stands before the value: write the text in UTF-8 without one")
    }

    @Test("Random damage to a good text is read or refused, and never stops the process", arguments: [UInt64.random(in: 0 ... .max)])
    func survivesDamage(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        let good = Array(
            #"{"a":[1,-2.5e3,true,null,"x\u00e9\ud83d\udce6é📦\n"],"b":{"c":{"d":[[],{}]}},"payload":{"aps":{"alert":"hi"}}}"#.utf8)
        var accepted = 0
        for _ in 0..<20_000 {
            let damaged = random.damage(good)
            let parsed = (try? JSONValue.parse(damaged)) != nil
            var scanner = JSONScanner(damaged)
            let skipped = (try? (scanner.skipValue(), scanner.finish())) != nil
            #expect(parsed == skipped, "seed \(seed): reading and passing over disagree about \(damaged)")
            if parsed { accepted += 1 }
        }
        #expect(accepted > 0 && accepted < 20_000, "seed \(seed): the damage was meant to be sometimes harmless, \(accepted)")
    }

    private func rewritten(_ text: String) throws -> String {
        var writer = JSONWriter()
        writer.value(try JSONValue.parse(Array(text.utf8)))
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
