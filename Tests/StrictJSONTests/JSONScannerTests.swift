import StrictJSON
import Testing

@Suite("Reading JSON value by value")
struct JSONScannerTests {
    private static let names = JSONNames(["a", "b", "c"])

    @Test(
        "Known fields are found in any order and unknown ones passed over",
        arguments: [
            #"{"a":1,"b":2,"c":3}"#, #"{"c":3,"b":2,"a":1}"#, #"{"x":{"deep":[1,{"a":9}]},"b":2,"a":1,"y":null,"c":3}"#,
            #"{"\u0061":1,"b":2,"c":3}"#,
        ])
    func findsFields(_ text: String) throws {
        #expect(try fields(text) == [0: 1, 1: 2, 2: 3])
    }

    @Test("A known field that stands twice is refused", arguments: [#"{"a":1,"a":2}"#, #"{"a":1,"x":0,"b":1,"a":1}"#])
    func refusesTwice(_ text: String) {
        #expect(throws: JSONError.self) { try fields(text) }
    }

    @Test(
        "A value of another kind than the one asked for is refused",
        arguments: [#"{"a":"1"}"#, #"{"a":1.0}"#, #"{"a":null}"#, #"{"a":[1]}"#, "[1]", "1"])
    func refusesOtherKinds(_ text: String) {
        #expect(throws: JSONError.self) { try fields(text) }
    }

    @Test("Escapes in a string are resolved, and a plain one is a slice of the source")
    func readsStrings() throws {
        var scanner = JSONScanner(Array(#"["plain","\u00e9\n",null,true,-5]"#.utf8))
        try scanner.beginArray()
        #expect(try scanner.nextElement())
        let plain = try scanner.stringBytes()
        #expect(plain.startIndex == 2 && plain.elementsEqual("plain".utf8))
        #expect(try scanner.nextElement())
        #expect(try scanner.string() == "é\n")
        #expect(try scanner.nextElement())
        #expect(try scanner.null())
        #expect(try scanner.nextElement())
        #expect(try !scanner.null())
        #expect(try scanner.bool())
        #expect(try scanner.nextElement())
        #expect(try scanner.integer() == -5)
        #expect(try !scanner.nextElement())
        try scanner.finish()
    }

    private func fields(_ text: String) throws(JSONError) -> [Int: Int64] {
        var scanner = JSONScanner(Array(text.utf8))
        var found: [Int: Int64] = [:]
        var place = try scanner.fields(Self.names)
        while let index = try scanner.next(&place) { found[index] = try scanner.integer() }
        try scanner.finish()
        return found
    }
}
