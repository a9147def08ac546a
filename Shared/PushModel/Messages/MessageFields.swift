import StrictJSON

/// The fields of a parsed message. Each error names the field. For messages that are few: a job and an outcome are read without a tree.
struct MessageFields {
    private let value: JSONValue?

    init(_ value: JSONValue?) { self.value = value }

    /// The fields of the object in that field; none if it is not there.
    subscript(_ field: String) -> MessageFields { MessageFields(value?[field]) }

    func has(_ field: String) -> Bool { value?[field] != nil }

    func integer(_ field: String) throws(MessageError) -> Int64 {
        guard let number = value?[field]?.integerValue else { throw MessageError(.invalidField(field), "expected a whole number") }
        return number
    }

    func string(_ field: String) throws(MessageError) -> String {
        guard let text = value?[field]?.stringValue else { throw MessageError(.invalidField(field), "expected a string") }
        return text
    }

    func strings(_ field: String) throws(MessageError) -> [String] {
        guard let elements = value?[field]?.arrayValue else { throw MessageError(.invalidField(field), "expected an array") }
        let texts = elements.compactMap(\.stringValue)
        guard texts.count == elements.count else { throw MessageError(.invalidField(field), "expected strings") }
        return texts
    }

    func id(_ field: String) throws(MessageError) -> PushID {
        guard let id = PushID(try string(field)) else { throw MessageError(.invalidField(field), "expected a UUID") }
        return id
    }

    func app(_ field: String) throws(MessageError) -> AppSlug {
        guard let app = AppSlug(try string(field)) else { throw MessageError(.invalidField(field), "expected " + AppSlug.rule) }
        return app
    }

    func choice<Choice: RawRepresentable<String>>(_ field: String, of type: Choice.Type) throws(MessageError) -> Choice {
        guard let choice = Choice(rawValue: try string(field)) else {
            throw MessageError(.invalidField(field), "not one of the known words")
        }
        return choice
    }

    /// UNIX milliseconds.
    func moment(_ field: String) throws(MessageError) -> Int64 {
        guard let time = RFC3339.milliseconds(try string(field)) else {
            throw MessageError(.invalidField(field), "expected a date and time of RFC 3339")
        }
        return time
    }

    func channel(_ field: String) throws(MessageError) -> ChannelID {
        guard let channel = ChannelID(try string(field)) else { throw MessageError(.invalidField(field), "expected base64") }
        return channel
    }
}
