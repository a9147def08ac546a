import PushModel
import StrictJSON

/// Reads the fields of one object, whose names are an enumeration's raw values in the order in which they are written.
struct RecordFields<Field: RawRepresentable<String> & CaseIterable & Sendable>: Sendable {
    private let names = JSONNames(Field.allCases.map(\.rawValue))
    private let fields = Array(Field.allCases)

    /// Calls `body` for each known field that is not null, its value to be read next.
    func read(_ scanner: inout JSONScanner, _ body: (Field, inout JSONScanner) throws(JSONError) -> Void) throws(JSONError) {
        var place = try scanner.fields(names)
        while let index = try scanner.next(&place) {
            if try scanner.null() { continue }
            try body(fields[index], &scanner)
        }
    }
}

extension JSONScanner {
    mutating func pushID(_ field: some RawRepresentable<String>) throws(JSONError) -> PushID {
        guard let id = PushID(ascii: try stringBytes()) else { throw error(inField: field.rawValue, "expected a UUID") }
        return id
    }

    mutating func deviceToken(_ field: some RawRepresentable<String>) throws(JSONError) -> DeviceToken {
        guard let token = DeviceToken(asciiHex: try stringBytes()) else {
            throw error(inField: field.rawValue, "expected an even number of hex digits")
        }
        return token
    }

    mutating func choice<Choice: RawRepresentable<String>>(
        _ field: some RawRepresentable<String>, of type: Choice.Type = Choice.self
    ) throws(JSONError) -> Choice {
        guard let choice = Choice(rawValue: try string()) else { throw error(inField: field.rawValue, "not one of the known words") }
        return choice
    }

    mutating func count(_ field: some RawRepresentable<String>) throws(JSONError) -> Int {
        guard let value = Int(exactly: try integer()), value >= 0 else { throw error(inField: field.rawValue, "must not be negative") }
        return value
    }

    mutating func list<Element>(
        _ element: (inout JSONScanner) throws(JSONError) -> Element
    ) throws(JSONError) -> [Element] {
        var elements: [Element] = []
        try beginArray()
        while try nextElement() { elements.append(try element(&self)) }
        return elements
    }

    func require<Value>(_ value: Value?, _ field: some RawRepresentable<String>) throws(JSONError) -> Value {
        guard let value else { throw error(inField: field.rawValue, "missing") }
        return value
    }
}

extension JSONWriter {
    mutating func field(_ field: some RawRepresentable<String>, _ id: PushID?) {
        if let id { plainField(field.rawValue, id.append) }
    }

    mutating func field(_ field: some RawRepresentable<String>, _ text: String?) { self.field(field.rawValue, text) }

    mutating func field(_ field: some RawRepresentable<String>, _ number: Int64?) { self.field(field.rawValue, number) }

    mutating func field(_ field: some RawRepresentable<String>, _ number: Int?) { self.field(field.rawValue, number) }

    mutating func field(_ field: some RawRepresentable<String>, _ truth: Bool?) { self.field(field.rawValue, truth) }

    mutating func field(_ field: some RawRepresentable<String>, _ word: (some RawRepresentable<String>)?) {
        self.field(field.rawValue, word?.rawValue)
    }

    mutating func field(_ field: some RawRepresentable<String>, _ tokens: [DeviceToken]) {
        guard !tokens.isEmpty else { return }
        array(field.rawValue) { writer in
            for token in tokens { writer.plainString(token.appendHex) }
        }
    }
}
