extension JSONSchema {
    /// As JSON Schema 2020-12.
    package var node: DocumentNode {
        guard case .map(let fields) = kindNode else { return kindNode }
        return .map(
            fields
                + [("description", description.map(DocumentNode.text)), ("default", standard)].compactMap { name, node in
                    node.map { DocumentField(name, $0) }
                })
    }

    private var kindNode: DocumentNode {
        switch kind {
        case .anything: .map([:])
        case .string(let text):
            .map([
                "type": type("string"), "format": text.format.map(DocumentNode.text), "pattern": text.pattern.map(DocumentNode.text),
                "minLength": Self.number(text.minimum), "maxLength": Self.number(text.maximum),
            ])
        case .integer(let minimum, let maximum):
            .map([
                "type": type("integer"), "format": "int64", "minimum": minimum.map(DocumentNode.integer),
                "maximum": maximum.map(DocumentNode.integer),
            ])
        case .number: .map(["type": type("number")])
        case .boolean: .map(["type": type("boolean")])
        case .words(let words): .map(["type": type("string"), "enum": .list(words.map(DocumentNode.text) + (isNullable ? [.null] : []))])
        case .numbers(let numbers):
            .map(["type": type("integer"), "enum": .list(numbers.map(DocumentNode.integer) + (isNullable ? [.null] : []))])
        case .array(let element, let minimum, let maximum):
            .map([
                "type": type("array"), "items": element.node, "minItems": Self.number(minimum), "maxItems": Self.number(maximum),
                "uniqueItems": hasUniqueItems ? true : nil,
            ])
        case .object(let fields, let isClosed): object(fields, isClosed: isClosed)
        case .dictionary(let element): .map(["type": type("object"), "additionalProperties": element.node])
        case .reference(let name, _): orNull(.map(["$ref": .text("#/components/schemas/\(name)")]))
        case .oneOf(let options): orNull(.map(["oneOf": .list(options.map(\.node))]))
        }
    }

    private func object(_ fields: [Field], isClosed: Bool) -> DocumentNode {
        let required = fields.filter(\.isRequired).map(\.name)
        return .map([
            "type": type("object"), "required": required.isEmpty ? nil : .texts(required),
            "properties": fields.isEmpty ? nil : .map(fields.map { DocumentField($0.name, $0.schema.node) }),
            "additionalProperties": isClosed ? false : nil,
        ])
    }

    private func type(_ name: String) -> DocumentNode { isNullable ? .texts([name, "null"]) : .text(name) }

    /// For kinds without a `type` of their own.
    private func orNull(_ node: DocumentNode) -> DocumentNode {
        isNullable ? .map(["anyOf": .list([node, .map(["type": "null"])])]) : node
    }

    private static func number(_ value: Int?) -> DocumentNode? { value.map { .integer(Int64($0)) } }
}
