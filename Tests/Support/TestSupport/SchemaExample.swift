package import StrictJSON

/// Makes JSON that a schema of an API's description describes.
package struct SchemaExample {
    /// How much of what is described it has.
    package enum Extent: Sendable {
        /// Every field and an item of each array, none of them null. An array whose items have several forms has one of each.
        case whole
        /// What is required, with null where that is allowed, and the least numbers.
        case required
    }

    let description: APIDescription
    let extent: Extent
    /// A field that it does without, as ``APIDescription/fields(of:)`` names it.
    package var omitted: String?
    /// Which word of its `enum` each field has; counts from the beginning again where there are fewer.
    let choice: Int

    package init(_ extent: Extent, in description: APIDescription, choice: Int = 0) {
        self.extent = extent
        self.description = description
        self.choice = choice
    }

    /// The body of an answer: of a stream, a line of each form, without errors.
    package func body(of answer: APIDescription.Answer) -> String {
        guard let schema = answer.schema else { return "" }
        guard answer.type?.hasSuffix("ndjson") == true else { return String(decoding: json(of: schema), as: UTF8.self) }
        let forms = description.options(of: description.resolved(schema)).filter { form in
            !(form["required"]?.arrayValue ?? []).contains { $0.stringValue == "error" }
        }
        var good = self
        good.omitted = "/error"
        return forms.map { String(decoding: good.json(of: $0), as: UTF8.self) + "\n" }.joined()
    }

    package func json(of schema: JSONValue) -> [UInt8] { json(schema, "") }

    private func json(_ stated: JSONValue, _ field: String) -> [UInt8] {
        let schema = description.resolved(stated)
        var writer = JSONWriter()
        if extent == .required, schema.takesNull {
            writer.null()
            return writer.bytes
        }
        let options = description.options(of: schema)
        if let option = options.first(where: { description.resolved($0).type == "object" }) ?? options.first { return json(option, field) }
        if let words = schema["enum"]?.arrayValue?.filter({ !$0.isNull }), !words.isEmpty {
            writer.value(words[choice % words.count])
            return writer.bytes
        }
        switch schema.type {
        case "string": writer.value(Self.text(schema, field))
        case "integer": writer.value(integer(schema))
        case "number": writer.value(1.5)
        case "boolean": writer.value(true)
        case "array": writer.array { array in for item in items(schema, field) { array.raw(item) } }
        case "object": write(object: schema, field, to: &writer)
        default: writer.object { _ in }
        }
        return writer.bytes
    }

    private func integer(_ schema: JSONValue) -> Int64 {
        let least = schema["minimum"]?.integerValue
        return extent == .required ? least ?? 0 : max(least ?? 1, min(1, schema["maximum"]?.integerValue ?? 1))
    }

    private func items(_ schema: JSONValue, _ field: String) -> [[UInt8]] {
        guard let item = schema["items"] else { return [] }
        let least = Int(schema["minItems"]?.integerValue ?? 0)
        guard extent == .whole else { return Array(repeating: json(item, field), count: least) }
        let forms = description.options(of: description.resolved(item))
        guard forms.isEmpty else { return forms.map { json($0, field) } }
        return Array(repeating: json(item, field), count: max(1, least))
    }

    private func write(object schema: JSONValue, _ field: String, to writer: inout JSONWriter) {
        let required = (schema["required"]?.arrayValue ?? []).compactMap(\.stringValue)
        writer.object { object in
            for (name, schema) in schema["properties"]?.objectValue ?? [] {
                let place = "\(field)/\(name)"
                guard extent == .whole || required.contains(name), place != omitted else { continue }
                object.field(name, raw: json(schema, place))
            }
            guard extent == .whole, let others = schema["additionalProperties"], others.objectValue != nil else { return }
            object.field("name", raw: json(others, field))
        }
    }

    /// Some text of each pattern that the description has.
    private static let texts = [
        "0a1b2c3d", "0123456789abcdef", "22:00", "2026-11-22T09:00", "alert", "psd_text", "whsec_AA==",
        "psh_0123456789abcdef_0123456789abcdef0123456789abcdef0123456789abcdef",
    ]

    /// The field's name where that fits, so that no two fields of an object have the same.
    private static func text(_ schema: JSONValue, _ field: String) -> String {
        switch schema["format"]?.stringValue {
        case "uuid": return "9f4c1e1a-6d0b-4c55-8a63-0e4b5c1d2f30"
        case "date-time": return "2026-11-21T09:30:00.250Z"
        default: break
        }
        let name = field.split(separator: "/").last.map(String.init) ?? "text"
        guard let pattern = schema["pattern"]?.stringValue, let regex = try? Regex(pattern) else { return name }
        return ([name] + texts).first { $0.firstMatch(of: regex) != nil } ?? "no text fits \(pattern)"
    }
}
