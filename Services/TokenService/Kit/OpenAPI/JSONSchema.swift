/// The type of a JSON value: the part of JSON Schema 2020-12 that the API needs, as a value.
package struct JSONSchema: Sendable {
    package indirect enum Kind: Sendable {
        case anything
        case string(Text)
        case integer(minimum: Int64?, maximum: Int64?)
        case number
        case boolean
        /// One of these words.
        case words([String])
        /// One of these numbers.
        case numbers([Int64])
        case array(JSONSchema, minimum: Int?, maximum: Int?)
        /// Closed: further fields are refused. Open: a later version may answer with more.
        case object([Field], isClosed: Bool)
        /// Any names; all values alike.
        case dictionary(JSONSchema)
        /// The document describes it once, under this name, and refers to it elsewhere.
        case reference(String, JSONSchema)
        case oneOf([JSONSchema])
    }

    package struct Text: Sendable {
        package var format: String?
        package var pattern: String?
        /// The least length in characters. The service counts bytes of UTF-8, which the description says.
        package var minimum: Int?
        package var maximum: Int?

        package init(format: String? = nil, pattern: String? = nil, minimum: Int? = nil, maximum: Int? = nil) {
            self.format = format
            self.pattern = pattern
            self.minimum = minimum
            self.maximum = maximum
        }
    }

    package struct Field: Sendable {
        package let name: String
        package let schema: JSONSchema
        package let isRequired: Bool
    }

    package var kind: Kind
    package var isNullable = false
    package var description: String?
    /// Whether an array with an item twice is refused.
    package var hasUniqueItems = false
    /// The value of a field that is left out.
    package var standard: DocumentNode?
    private var statedExample: DocumentNode?

    package init(_ kind: Kind) { self.kind = kind }
}

extension JSONSchema {
    package static let anything = JSONSchema(.anything)
    package static let boolean = JSONSchema(.boolean)
    package static let integer = JSONSchema(.integer(minimum: nil, maximum: nil))
    package static let number = JSONSchema(.number)
    /// An integer that is not negative.
    package static let count = JSONSchema(.integer(minimum: 0, maximum: nil))
    package static let uuid = JSONSchema(.string(Text(format: "uuid"))).example("9f4c1e1a-6d0b-4c55-8a63-0e4b5c1d2f30")
    package static let time = JSONSchema(.string(Text(format: "date-time"))).example("2026-11-21T09:30:00.250Z")
    package static let slug = JSONSchema(.string(Text(pattern: "^[a-z][a-z0-9-]{0,63}$"))).example("shop")
    package static let deviceToken = JSONSchema.string(pattern: "^([0-9a-fA-F]{2}){1,256}$")
        .example(.text(String(repeating: "0a1b2c3d", count: 8))).described("Hex, as the device got it from APNs.")

    package static func integer(_ range: ClosedRange<Int64>) -> JSONSchema {
        JSONSchema(.integer(minimum: range.lowerBound, maximum: range.upperBound))
    }
    /// A name of something.
    /// - Parameter maximum: Bytes of UTF-8.
    package static func string(_ maximum: Int) -> JSONSchema {
        string(maximum, pattern: withoutControls).described("At most \(maximum) bytes of UTF-8, no control characters.")
    }
    package static func string(_ maximum: Int, pattern: String) -> JSONSchema {
        JSONSchema(.string(Text(pattern: pattern, minimum: 1, maximum: maximum)))
    }
    package static func string(pattern: String? = nil) -> JSONSchema { JSONSchema(.string(Text(pattern: pattern))) }
    /// The pattern of every text that names something.
    package static let withoutControls = "^[^\\x00-\\x1f\\x7f]*$"
    package static func numbers(_ numbers: [Int64]) -> JSONSchema { JSONSchema(.numbers(numbers)) }
    package static func words(_ words: [String]) -> JSONSchema { JSONSchema(.words(words)) }
    package static func words<Word: CaseIterable & RawRepresentable<String>>(_ type: Word.Type) -> JSONSchema {
        words(type.allCases.map(\.rawValue))
    }
    package static func array(_ element: JSONSchema, minimum: Int? = nil, maximum: Int? = nil) -> JSONSchema {
        JSONSchema(.array(element, minimum: minimum, maximum: maximum))
    }
    package static func named(_ name: String, _ schema: JSONSchema) -> JSONSchema { JSONSchema(.reference(name, schema)) }
    package static func dictionary(_ element: JSONSchema) -> JSONSchema { JSONSchema(.dictionary(element)) }
    package static func oneOf(_ schemas: JSONSchema...) -> JSONSchema { JSONSchema(.oneOf(schemas)) }

    /// A request body: the service refuses a field that is not listed.
    package static func request(_ fields: [Field]) -> JSONSchema { JSONSchema(.object(fields, isClosed: true)) }
    package static func request(_ name: String, _ fields: [Field]) -> JSONSchema { named(name, request(fields)) }
    /// An answer's body: a client passes over fields that it does not know.
    package static func answer(_ fields: [Field]) -> JSONSchema { JSONSchema(.object(fields, isClosed: false)) }

    package var unique: JSONSchema { with { $0.hasUniqueItems = true } }
    package var orNull: JSONSchema { with { $0.isNullable = true } }
    package func described(_ text: String) -> JSONSchema { with { $0.description = text } }
    package func example(_ node: DocumentNode) -> JSONSchema { with { $0.statedExample = node } }
    package func standard(_ node: DocumentNode) -> JSONSchema { with { $0.standard = node } }

    private func with(_ change: (inout JSONSchema) -> Void) -> JSONSchema {
        var schema = self
        change(&schema)
        return schema
    }
}

extension JSONSchema.Field {
    package static func required(_ name: String, _ schema: JSONSchema, _ description: String? = nil) -> JSONSchema.Field {
        JSONSchema.Field(name: name, schema: description.map(schema.described) ?? schema, isRequired: true)
    }
    /// A field that may be left out.
    package static func optional(_ name: String, _ schema: JSONSchema, _ description: String? = nil) -> JSONSchema.Field {
        JSONSchema.Field(name: name, schema: description.map(schema.described) ?? schema, isRequired: false)
    }
    /// A field that a caller may also send as null, which is the same as leaving it out.
    package static func omissible(_ name: String, _ schema: JSONSchema, _ description: String? = nil) -> JSONSchema.Field {
        optional(name, schema.orNull, description)
    }
}

extension JSONSchema {
    /// The stated example, or one that is put together from the parts' examples.
    package var example: DocumentNode {
        if let statedExample { return statedExample }
        switch kind {
        case .anything: return .map([DocumentField]())
        case .string: return "text"
        case .integer(let minimum, _): return .integer(minimum ?? 1)
        case .number: return .number(1.5)
        case .boolean: return true
        case .words(let words): return .text(words.first ?? "")
        case .numbers(let numbers): return .integer(numbers.first ?? 0)
        case .array(let element, _, _): return .list([element.example])
        case .object(let fields, _): return .map(fields.map { DocumentField($0.name, $0.schema.example) })
        case .dictionary(let element): return .map([DocumentField("name", element.example)])
        case .reference(_, let schema): return schema.example
        case .oneOf(let options): return options.first?.example ?? .null
        }
    }
}

extension JSONSchema {
    /// The schemas that the document describes under names of their own: this one, and those within it.
    var named: [String: JSONSchema] {
        switch kind {
        case .reference(let name, let schema): schema.named.merging([name: schema]) { $1 }
        case .array(let element, _, _), .dictionary(let element): element.named
        case .object(let fields, _): Self.named(in: fields.map(\.schema))
        case .oneOf(let options): Self.named(in: options)
        default: [:]
        }
    }

    package static func named(in schemas: some Sequence<JSONSchema>) -> [String: JSONSchema] {
        schemas.reduce(into: [:]) { all, schema in all.merge(schema.named) { $1 } }
    }
}

extension JSONSchema {
    /// The schema as JSON Schema 2020-12.
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

    /// Allows null for kinds without a `type` of their own.
    private func orNull(_ node: DocumentNode) -> DocumentNode {
        isNullable ? .map(["anyOf": .list([node, .map(["type": "null"])])]) : node
    }

    private static func number(_ value: Int?) -> DocumentNode? { value.map { .integer(Int64($0)) } }
}
