import TokenServiceKit

/// What the API's description says of a value, tried at its edges: values that it forbids, and whole numbers that it allows.
struct SchemaMutations {
    struct Mutation {
        /// A JSON pointer into the whole value.
        let pointer: String
        let what: String
        let value: DocumentNode
    }

    /// How many levels of objects and arrays are entered.
    var depth = 4

    /// Each is the example with one thing wrong.
    func forbidden(_ schema: JSONSchema) -> [Mutation] { forbidden(schema, schema.example, depth) }

    private func forbidden(_ schema: JSONSchema, _ example: DocumentNode, _ depth: Int) -> [Mutation] {
        func wrong(_ what: String, _ value: DocumentNode?) -> Mutation? { value.map { Mutation(pointer: "", what: what, value: $0) } }
        switch schema.kind {
        case .reference(_, let schema): return forbidden(schema, example, depth)
        case .string(let text):
            return [
                wrong("a number", 7), wrong("too long", text.maximum.map { .text(String(repeating: "a", count: $0 + 1)) }),
                wrong("empty", (text.minimum ?? 0) > 0 || text.format != nil || text.pattern != nil ? "" : nil),
                wrong("no \(text.format ?? "") \(text.pattern ?? "")", text.unmatched.map(DocumentNode.text)),
            ].compactMap(\.self)
        case .integer(let minimum, let maximum):
            return [
                wrong("a text", "1"), wrong("a fraction", .number(1.5)),
                wrong("too small", minimum.flatMap { $0 > .min ? .integer($0 - 1) : nil }),
                wrong("too large", maximum.flatMap { $0 < .max ? .integer($0 + 1) : nil }),
            ].compactMap(\.self)
        case .boolean: return [wrong("a text", "true")].compactMap(\.self)
        case .number: return [wrong("a text", "1")].compactMap(\.self)
        case .words: return [wrong("none of its words", "nonsense"), wrong("a number", 7)].compactMap(\.self)
        case .numbers: return [wrong("none of its numbers", -7), wrong("a text", "10")].compactMap(\.self)
        case .array(let element, let minimum, let maximum): return elements(schema, element, minimum, maximum, depth)
        case .object(let fields, let isClosed): return members(fields, isClosed: isClosed, example, depth)
        case .anything, .dictionary, .oneOf: return []
        }
    }

    private func elements(_ schema: JSONSchema, _ element: JSONSchema, _ minimum: Int?, _ maximum: Int?, _ depth: Int) -> [Mutation] {
        let example = element.example
        var mutations = [Mutation(pointer: "", what: "a text", value: "x")]
        if minimum ?? 0 > 0 { mutations.append(Mutation(pointer: "", what: "empty", value: .list([]))) }
        if schema.hasUniqueItems { mutations.append(Mutation(pointer: "", what: "an item twice", value: .list([example, example]))) }
        if let maximum {
            mutations.append(
                Mutation(pointer: "", what: "too many", value: .list(Array(repeating: example, count: maximum + 1))))
        }
        guard depth > 0 else { return mutations }
        return mutations
            + forbidden(element, example, depth - 1).map {
                Mutation(pointer: "/0" + $0.pointer, what: $0.what, value: .list([$0.value]))
            }
    }

    private func members(
        _ fields: [JSONSchema.Field], isClosed: Bool, _ example: DocumentNode, _ depth: Int
    ) -> [Mutation] {
        var mutations = [Mutation(pointer: "", what: "a number", value: 7)]
        if isClosed { mutations.append(Mutation(pointer: "/surplus", what: "unknown", value: example.setting("surplus", 1))) }
        for field in fields {
            if field.isRequired {
                mutations.append(Mutation(pointer: "/\(field.name)", what: "missing", value: example.setting(field.name, nil)))
            }
            guard depth > 0 else { continue }
            mutations += forbidden(field.schema, field.schema.example, depth - 1).map {
                Mutation(pointer: "/\(field.name)" + $0.pointer, what: $0.what, value: example.setting(field.name, $0.value))
            }
        }
        return mutations
    }

    /// The example with one field at an edge of what is allowed: integers, also written with a fraction of zero, and repeated items.
    func allowed(_ schema: JSONSchema) -> [Mutation] {
        guard case .object(let fields, _) = resolved(schema).kind else { return [] }
        let example = schema.example
        return fields.flatMap { field in
            edges(resolved(field.schema)).map {
                Mutation(pointer: "/\(field.name)", what: $0.what, value: example.setting(field.name, $0.value))
            }
        }
    }

    private func resolved(_ schema: JSONSchema) -> JSONSchema {
        if case .reference(_, let target) = schema.kind { target } else { schema }
    }

    private func edges(_ schema: JSONSchema) -> [(what: String, value: DocumentNode)] {
        switch schema.kind {
        case .integer(let minimum, let maximum):
            let fraction = Double(minimum ?? 1)
            return [("least", .integer(minimum ?? .min)), ("most", .integer(maximum ?? .max)), ("\(fraction)", .number(fraction))]
        case .array(let element, _, let maximum) where !schema.hasUniqueItems && maximum ?? 2 >= 2:
            let item = element.example
            return [("an item twice", .list([item, item]))]
        default: return []
        }
    }
}

extension JSONSchema.Text {
    /// A text that has not the format, or not the pattern.
    var unmatched: String? {
        if pattern == JSONSchema.withoutControls { return "a\u{1}" }
        return format != nil || pattern != nil ? "!" : nil
    }
}

extension DocumentNode {
    /// - Parameter node: nil takes the field away.
    func setting(_ name: String, _ node: DocumentNode?) -> DocumentNode {
        guard case .map(let fields) = self else { return self }
        let value = node.map { DocumentField(name, $0) }
        guard fields.contains(where: { $0.name == name }) else { return .map(fields + [value].compactMap(\.self)) }
        return .map(fields.compactMap { $0.name == name ? value : $0 })
    }
}
