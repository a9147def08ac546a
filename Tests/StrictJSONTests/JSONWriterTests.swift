import StrictJSON
import Testing

@Suite("The output of a JSON writer")
struct JSONWriterTests {
    @Test("Fields, arrays and nesting have their commas, and nil fields leave no trace")
    func separates() {
        var writer = JSONWriter()
        writer.object { writer in
            writer.field("a", "x")
            writer.field("none", nil as String?)
            writer.field("b", 1)
            writer.field("c", Int64.min)
            writer.field("none", nil as Int?)
            writer.field("d", true)
            writer.field("e", 0.25)
            writer.null("f")
            writer.array("g") { writer in
                writer.value("p")
                writer.array { _ in }
                writer.object { $0.field("q", [String]()) }
                writer.value(false)
            }
            writer.object("h") { _ in }
            writer.field("i", raw: Array(#"{ "verbatim" : 1.0 }"#.utf8))
            writer.field("j", ["k", "l"])
            writer.plainField("m") { $0.append(contentsOf: "ff".utf8) }
        }
        let expected =
            #"{"a":"x","b":1,"c":-9223372036854775808,"d":true,"e":0.25,"f":null,"g":["p",[],{"q":[]},false],"h":{},"#
            + #""i":{ "verbatim" : 1.0 },"j":["k","l"],"m":"ff"}"#
        #expect(String(decoding: writer.bytes, as: UTF8.self) == expected)
    }

    @Test("A raw value of the caller is separated from its neighbours like any value")
    func writesRawPieces() {
        var writer = JSONWriter()
        writer.array { writer in
            for number in [0, 7, 10, -3, Int64.min, Int64.max, 1_763_700_000_000] {
                writer.object { writer in
                    writer.raw { $0.append(contentsOf: #""a":"x","n":"#.utf8) }
                    writer.decimal(number)
                    writer.decimal(number, after: #","m":"#)
                    writer.field("z", number)
                }
            }
        }
        let objects = [0, 7, 10, -3, Int64.min, Int64.max, 1_763_700_000_000].map { #"{"a":"x","n":\#($0),"m":\#($0),"z":\#($0)}"# }
        #expect(String(decoding: writer.bytes, as: UTF8.self) == "[\(objects.joined(separator: ","))]")
    }

    @Test(
        "The writer escapes only characters that need it",
        arguments: [
            ("plain / äöü 📦", #""plain / äöü 📦""#), ("a\"b\\c", #""a\"b\\c""#), ("\n\r\t\u{8}\u{c}", #""\n\r\t\b\f""#),
            ("\u{0}\u{1f}\u{7f}", "\"\\u0000\\u001f\u{7f}\""),
        ])
    func escapes(_ text: String, as expected: String) {
        var writer = JSONWriter()
        writer.value(text)
        #expect(String(decoding: writer.bytes, as: UTF8.self) == expected)
    }

    @Test("Names are escaped like any string")
    func escapesNames() {
        var writer = JSONWriter()
        writer.object { $0.field("a\"b", 1) }
        #expect(String(decoding: writer.bytes, as: UTF8.self) == #"{"a\"b":1}"#)
    }

    @Test("Numbers come back as they were", arguments: [0, 1, 9, 10, -1, -10, 1_782_214_200_250, .max, .min] as [Int64])
    func writesIntegers(_ number: Int64) throws {
        var writer = JSONWriter()
        writer.value(number)
        #expect(try JSONValue.parse(writer.bytes).integerValue == number)
    }

    @Test("Doubles come back equal, and values without a JSON form are null", arguments: [0.1, -2.5e-300, 1e300, 1.0])
    func writesDoubles(_ number: Double) throws {
        var writer = JSONWriter()
        writer.array { writer in
            writer.value(number)
            writer.value(Double.nan)
            writer.value(-Double.infinity)
        }
        let value = try JSONValue.parse(writer.bytes)
        #expect(value[0]?.numberValue == number)
        #expect(value[1]?.isNull == true && value[2]?.isNull == true)
    }
}
