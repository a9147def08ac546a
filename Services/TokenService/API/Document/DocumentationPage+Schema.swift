import TokenServiceKit

extension DocumentationPage {
    static func article(_ name: String, _ schema: JSONSchema) -> HTML {
        "<article id=\"schema-\(name)\"><h3>\(name)</h3>\(fields(of: schema))\(example(of: schema, onOneLine: false))</article>"
    }

    /// The fields of an object, objects within it included; anything else by its type.
    static func fields(of schema: JSONSchema) -> HTML {
        let description = schema.description.map { "<p>\(words: $0)</p>" as HTML }
        let content: HTML? =
            switch schema.kind {
            case .object(let fields, _) where !fields.isEmpty: .table(["Field", "Type", "Meaning"], rows(fields, prefix: ""))
            case .oneOf(let options):
                "\(options.enumerated().map { "<p class=\"quiet\">\($0 == 0 ? "Either" : "or")</p>\(fields(of: $1))" as HTML })"
            default: "<p>\(type(schema))</p>"
            }
        return "\(description)\(content)"
    }

    private static func rows(_ fields: [JSONSchema.Field], prefix: String) -> [[HTML]] {
        fields.flatMap { field -> [[HTML]] in
            let standard = field.schema.standard.map { " Default \(.code($0.json))." as HTML }
            let row: [HTML] = [
                name(prefix + field.name, field.isRequired ? "required" : nil), type(field.schema),
                "\(words: field.schema.description ?? "")\(standard)",
            ]
            return [row] + inner(field.schema, "\(prefix)\(field.name)")
        }
    }

    private static func inner(_ schema: JSONSchema, _ place: String) -> [[HTML]] {
        switch schema.kind {
        case .object(let fields, _): rows(fields, prefix: place + ".")
        case .array(let element, _, _): inner(element, place + "[]")
        case .oneOf(let options): options.flatMap { inner($0, place) }
        default: []
        }
    }

    static func type(_ schema: JSONSchema) -> HTML {
        let nullable = schema.isNullable ? " or null" : ""
        return switch schema.kind {
        case .anything: "any value\(nullable)"
        case .string(let text):
            "\(text.format ?? "string")\(text.pattern.map(pattern))\(text.maximum.map { ", at most \($0)" } ?? "")\(nullable)"
        case .integer(let minimum?, let maximum?): "integer \(minimum) to \(maximum)\(nullable)"
        case .integer(let minimum?, nil): "integer from \(minimum)\(nullable)"
        case .integer: "integer\(nullable)"
        case .number: "number\(nullable)"
        case .boolean: "boolean\(nullable)"
        case .words(let words): "\(choices(words))\(nullable)"
        case .numbers(let numbers): "\(choices(numbers.map(String.init)))\(nullable)"
        case .array(let element, _, let maximum):
            "list of \(maximum.map { "at most \($0): " } ?? "")\(type(element))\(schema.hasUniqueItems ? ", none twice" : "")\(nullable)"
        case .object: "object\(nullable)"
        case .dictionary(let element): "object; each value: \(type(element))\(nullable)"
        case .reference(let name, _): "<a href=\"#schema-\(name)\">\(name)</a>\(nullable)"
        case .oneOf(let options): "one of \(options.count) forms\(nullable)"
        }
    }

    private static func pattern(_ pattern: String) -> HTML {
        pattern == JSONSchema.withoutControls ? " without control characters" : "<code class=\"pattern\">\(pattern)</code>"
    }

    private static func choices(_ words: [String]) -> [HTML] {
        words.enumerated().map { index, word in "\(index > 0 ? ", " : "")\(.code(word))" }
    }

    static func example(of schema: JSONSchema, onOneLine: Bool) -> HTML {
        "<details><summary>Example</summary><pre>\(onOneLine ? schema.example.json : schema.example.indented())</pre></details>"
    }
}
