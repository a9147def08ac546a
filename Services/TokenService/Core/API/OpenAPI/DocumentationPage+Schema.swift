extension DocumentationPage {
    /// The fields of an object, objects within it included; anything else by its type.
    static func fields(of schema: JSONSchema, _ html: inout HTMLWriter) {
        if let description = schema.description { html.element("p", description) }
        switch schema.kind {
        case .object(let fields, _) where !fields.isEmpty:
            table(["Field", "Type", "Meaning"], &html) { rows(fields, prefix: "", &$0) }
        case .oneOf(let options):
            for (index, option) in options.enumerated() {
                html.element("p", ["class": "quiet"], index == 0 ? "Either" : "or")
                fields(of: option, &html)
            }
        default: html.element("p") { typeCell(schema, &$0) }
        }
    }

    private static func rows(_ fields: [JSONSchema.Field], prefix: String, _ html: inout HTMLWriter) {
        for field in fields {
            html.element("tr") { row in
                row.element("td") { cell in
                    cell.element("code", prefix + field.name)
                    if field.isRequired { cell.element("span", ["class": "required"], "required") }
                }
                row.element("td") { typeCell(field.schema, &$0) }
                row.element("td") { cell in
                    if let description = field.schema.description { cell.words(description) }
                    if let standard = field.schema.standard { cell.words(" Default `\(standard.json)`.") }
                }
            }
            if case .object(let inner, _) = field.schema.kind { rows(inner, prefix: "\(prefix)\(field.name).", &html) }
            if case .array(let element, _, _) = field.schema.kind, case .object(let inner, _) = element.kind {
                rows(inner, prefix: "\(prefix)\(field.name)[].", &html)
            }
            guard case .oneOf(let options) = field.schema.kind else { continue }
            for case .object(let inner, _) in options.map(\.kind) { rows(inner, prefix: "\(prefix)\(field.name).", &html) }
        }
    }

    static func typeCell(_ schema: JSONSchema, _ html: inout HTMLWriter) {
        type(schema, &html)
        if schema.isNullable { html.plain(" or null") }
    }

    private static func type(_ schema: JSONSchema, _ html: inout HTMLWriter) {
        switch schema.kind {
        case .anything: html.plain("any value")
        case .string(let text):
            html.plain(text.format ?? "string")
            if let pattern = text.pattern { html.element("code", ["class": "pattern"]) { $0.plain(pattern) } }
            if let maximum = text.maximum { html.plain(", at most \(maximum)") }
        case .integer(let minimum, let maximum):
            html.plain("integer")
            if let minimum { html.plain(maximum == nil ? " from \(minimum)" : " \(minimum) to \(maximum ?? 0)") }
        case .number: html.plain("number")
        case .boolean: html.plain("boolean")
        case .words(let words): choices(words, &html)
        case .numbers(let numbers): choices(numbers.map(String.init), &html)
        case .array(let element, _, let maximum):
            html.plain(maximum.map { "list of at most \($0): " } ?? "list of ")
            typeCell(element, &html)
            if schema.hasUniqueItems { html.plain(", none twice") }
        case .object: html.plain("object")
        case .dictionary(let element):
            html.plain("object; each value: ")
            typeCell(element, &html)
        case .reference(let name): html.element("a", ["href": "#schema-\(name)"], name)
        case .oneOf(let options):
            html.plain("one of \(options.count) forms")
        }
    }

    private static func choices(_ words: [String], _ html: inout HTMLWriter) {
        for (index, word) in words.enumerated() {
            if index > 0 { html.plain(", ") }
            html.element("code", word)
        }
    }

    static func example(of schema: JSONSchema, onOneLine: Bool = false, _ html: inout HTMLWriter) {
        let example = schema.example(in: OpenAPIDocument.schemas)
        html.element("details") { details in
            details.element("summary", "Example")
            details.element("pre") { $0.plain(onOneLine ? example.json : example.indented()) }
        }
    }
}
