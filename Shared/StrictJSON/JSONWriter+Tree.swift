extension JSONWriter {
    /// Writes a parsed value again, without blanks and with no escapes that it does not need.
    package mutating func value(_ value: JSONValue) {
        switch value.kind {
        case .null: null()
        case .bool(let value): self.value(value)
        case .integer(let value): self.value(value)
        case .number(let value): self.value(value)
        case .string(let value): self.value(value)
        case .array(let elements):
            array { writer in
                for element in elements { writer.value(element) }
            }
        case .object(let fields):
            object { writer in
                for (name, value) in fields {
                    writer.name(name)
                    writer.value(value)
                }
            }
        }
    }
}
