import StrictJSON

/// Our types as fields of a message. Each error names the field.
extension JSONScanner {
    mutating func pushID(_ field: String) throws(JSONError) -> PushID {
        guard let id = PushID(ascii: try stringBytes()) else { throw error(inField: field, "expected a UUID") }
        return id
    }

    mutating func appSlug(_ field: String) throws(JSONError) -> AppSlug {
        guard let slug = AppSlug(try string()) else { throw error(inField: field, "expected " + AppSlug.rule) }
        return slug
    }

    mutating func deviceToken(_ field: String) throws(JSONError) -> DeviceToken {
        guard let token = DeviceToken(asciiHex: try stringBytes()) else {
            throw error(inField: field, "expected an even number of hex digits")
        }
        return token
    }

    mutating func choice<Choice: RawRepresentable<String>>(_ field: String, of type: Choice.Type) throws(JSONError) -> Choice {
        guard let choice = Choice(rawValue: try string()) else { throw error(inField: field, "not one of the known words") }
        return choice
    }

    mutating func integer(_ field: String, in range: ClosedRange<Int>) throws(JSONError) -> Int {
        guard let value = Int(exactly: try integer()), range.contains(value) else {
            throw error(inField: field, "from \(range.lowerBound) to \(range.upperBound)")
        }
        return value
    }

    /// The value of a field that must be there.
    func require<Value>(_ value: Value?, _ field: String) throws(JSONError) -> Value {
        guard let value else { throw error(inField: field, "missing") }
        return value
    }
}
