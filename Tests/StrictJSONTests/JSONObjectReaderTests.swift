import StrictJSON
import Testing

@Suite("A reader of objects finds fields and reports problems")
struct JSONObjectReaderTests {
    private enum Colour: String, CaseIterable { case red, green }

    @Test("The reader reads every valid field, and a valid body has no problem")
    func readsFields() throws {
        var reader = try reader(
            #"{"s":"x","i":5,"b":true,"c":"red","l":["a","b"],"o":{"n":1},"os":[{"n":1},{"n":2}],"v":{"any":null},"nil":null,"e":""}"#)
        #expect(reader.string("s", maximumBytes: 1) == "x")
        #expect(reader.integer("i", in: 5...5) == 5)
        #expect(reader.bool("b") == true)
        #expect(reader.choice("c", of: Colour.self) == .red)
        #expect(reader.strings("l", maximumCount: 2, maximumBytes: 1) == ["a", "b"])
        var object = reader.object("o")
        #expect(object?.integer("n") == 1)
        object?.finish()
        var objects = reader.objects("os", maximumCount: 2) ?? []
        #expect(objects.indices.map { objects[$0].integer("n") } == [1, 2])
        #expect(reader.value("v")?["any"]?.isNull == true)
        #expect(reader.optionalString("nil", maximumBytes: 1) == nil)
        #expect(reader.string("e", minimumBytes: 0, maximumBytes: 1) == "")
        #expect(reader.has("nil") && !reader.has("absent"))
        #expect(reader.optionalInteger("absent") == nil)
        reader.finish()
        #expect(reader.problems.list == [])
    }

    @Test("All problems are reported at once, each with its place")
    func collectsProblems() throws {
        var reader = try reader(
            #"{"long":"abc","empty":"","zero":"a\u0000b","i":7,"f":1.5,"b":"true","c":"blue","l":["ok",5,"toolong"],"many":[1,2],"o":[],"#
                + #""os":[{},{"n":"x","extra":1}],"extra":1,"a/b~c":2}"#)
        _ = reader.string("long", maximumBytes: 2)
        _ = reader.string("empty", maximumBytes: 2)
        _ = reader.string("zero", maximumBytes: 9)
        _ = reader.integer("i", in: 1...6)
        _ = reader.integer("f")
        _ = reader.bool("b")
        _ = reader.choice("c", of: Colour.self)
        #expect(reader.strings("l", maximumCount: 3, maximumBytes: 2) == nil)
        _ = reader.strings("many", maximumCount: 1, maximumBytes: 2)
        _ = reader.object("o")
        for var object in reader.objects("os", maximumCount: 2) ?? [] {
            _ = object.integer("n")
            object.finish()
        }
        _ = reader.string("absent", maximumBytes: 1)
        reader.problem("c", "own_word", "because")
        reader.finish()
        #expect(
            reader.problems.list.map { "\($0.pointer) \($0.code)" } == [
                "/long too_long", "/empty too_short", "/zero invalid_character", "/i out_of_range", "/f wrong_type", "/b wrong_type",
                "/c unsupported_value", "/l/1 wrong_type", "/l/2 too_long", "/many too_many", "/o wrong_type", "/os/0/n missing",
                "/os/1/n wrong_type", "/os/1/extra unknown_field", "/absent missing", "/c own_word", "/extra unknown_field",
                "/a~1b~0c unknown_field",
            ])
    }

    @Test("A name has no control character; prose has every one but U+0000", arguments: [0, 1, 9, 10, 0x1f, 0x20, 0x7e, 0x7f, 0x80])
    func controlCharacters(code: UInt8) throws {
        let text = "a" + String(Unicode.Scalar(code))
        let escaped = "a\\u00" + (code < 16 ? "0" : "") + String(code, radix: 16)
        var reader = try reader(#"{"a":"\#(escaped)","b":"\#(escaped)"}"#)
        let isControl = code < 0x20 || code == 0x7f
        #expect(reader.string("a", maximumBytes: 9) == (isControl ? nil : text))
        #expect(reader.string("b", maximumBytes: 9, isProse: true) == (code == 0 ? nil : text))
        reader.finish()
        #expect(
            reader.problems.list.map { "\($0.pointer) \($0.code)" }
                == [isControl ? "/a invalid_character" : nil, code == 0 ? "/b invalid_character" : nil].compactMap(\.self))
    }

    @Test("A body that is no object is one problem, not one per field")
    func refusesOtherValues() throws {
        var reader = try reader("[1]")
        _ = reader.string("a", maximumBytes: 1)
        _ = reader.integer("b")
        reader.finish()
        #expect(reader.problems.list == [JSONProblem(pointer: "", code: "wrong_type", detail: "expected an object, found an array")])
    }

    @Test("Problems never show the given value")
    func hidesValues() throws {
        var reader = try reader(#"{"a":"secret-value","b":"secret-value","c":12345}"#)
        _ = reader.string("a", maximumBytes: 3)
        _ = reader.choice("b", of: Colour.self)
        _ = reader.integer("c", in: 0...1)
        let words = "\(reader.problems.list)"
        #expect(!words.contains("secret") && !words.contains("12345"))
        #expect(reader.problems.list.count == 3)
    }

    @Test("A body with thousands of faults does not make thousands of problems")
    func boundsProblems() throws {
        let names = (0..<5000).map { "\"n\($0)\":0" }.joined(separator: ",")
        let reader = try reader("{\(names)}")
        reader.finish()
        #expect(reader.problems.list.count == JSONProblems.maximum)
    }

    private func reader(_ text: String) throws -> JSONObjectReader {
        JSONObjectReader(try JSONValue.parse(Array(text.utf8)))
    }
}
