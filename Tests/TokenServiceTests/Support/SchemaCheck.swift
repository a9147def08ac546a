import PushModel
import StrictJSON
import TokenServiceKit

/// Holds a JSON value against a schema of the API's description.
///
/// Stricter than JSON Schema: a field that is not described is a fault in answers too, because it would never be described then.
struct SchemaCheck {
    /// `pointer: what is wrong`.
    private(set) var faults: [String] = []

    static func faults(of value: JSONValue, against schema: JSONSchema) -> [String] {
        var check = SchemaCheck()
        check.check(value, schema, at: "")
        return check.faults
    }

    private mutating func check(_ value: JSONValue, _ schema: JSONSchema, at pointer: String) {
        if schema.isNullable, value.isNull { return }
        switch schema.kind {
        case .anything: break
        case .string(let rule): check(value, rule, at: pointer)
        case .integer(let minimum, let maximum):
            guard let number = value.wholeValue else { return fault(pointer, "expected an integer", value) }
            if number < minimum ?? .min || number > maximum ?? .max { fault(pointer, "\(number) is out of range") }
        case .number: if value.numberValue == nil { fault(pointer, "expected a number", value) }
        case .boolean: if value.boolValue == nil { fault(pointer, "expected a boolean", value) }
        case .words(let words):
            if !words.contains(where: { $0 == value.stringValue }) { fault(pointer, "not one of \(words)", value) }
        case .numbers(let numbers):
            if !numbers.contains(where: { $0 == value.wholeValue }) { fault(pointer, "not one of \(numbers)", value) }
        case .array(let element, let minimum, let maximum):
            check(value, of: element, minimum, maximum, at: pointer)
            if schema.hasUniqueItems, value.hasRepeatedText { fault(pointer, "an item twice") }
        case .object(let fields, _): check(value, fields, at: pointer)
        case .dictionary(let element):
            guard let members = value.objectValue else { return fault(pointer, "expected an object", value) }
            for member in members { check(member.value, element, at: "\(pointer)/\(member.key)") }
        case .reference(_, let schema): check(value, schema, at: pointer)
        case .oneOf(let options):
            let good = options.filter { Self.faults(of: value, against: $0).isEmpty }
            if good.count != 1 { fault(pointer, "matches \(good.count) of \(options.count) forms") }
        }
    }

    private mutating func check(_ value: JSONValue, _ rule: JSONSchema.Text, at pointer: String) {
        guard let text = value.stringValue else { return fault(pointer, "expected a string", value) }
        if text.unicodeScalars.count < rule.minimum ?? 0 || text.unicodeScalars.count > rule.maximum ?? .max {
            fault(pointer, "of the wrong length")
        }
        switch rule.format {
        case "uuid": if PushID(text) == nil { fault(pointer, "no UUID") }
        case "date-time": if RFC3339.milliseconds(text) == nil { fault(pointer, "no date and time") }
        case nil: break
        case let format?: fault(pointer, "the checker does not know the format \(format)")
        }
        guard let pattern = rule.pattern else { return }
        do {
            if text.firstMatch(of: try Regex(pattern)) == nil { fault(pointer, "does not match \(pattern)") }
        } catch {
            fault(pointer, "the pattern \(pattern) cannot be read")
        }
    }

    private mutating func check(_ value: JSONValue, of element: JSONSchema, _ minimum: Int?, _ maximum: Int?, at pointer: String) {
        guard let elements = value.arrayValue else { return fault(pointer, "expected an array", value) }
        if elements.count < minimum ?? 0 || elements.count > maximum ?? .max { fault(pointer, "of the wrong length") }
        for (index, value) in elements.enumerated() { check(value, element, at: "\(pointer)/\(index)") }
    }

    private mutating func check(_ value: JSONValue, _ fields: [JSONSchema.Field], at pointer: String) {
        guard let members = value.objectValue else { return fault(pointer, "expected an object", value) }
        for field in fields {
            if let value = value[field.name] {
                check(value, field.schema, at: "\(pointer)/\(field.name)")
            } else if field.isRequired {
                fault("\(pointer)/\(field.name)", "missing")
            }
        }
        for member in members where !fields.contains(where: { $0.name == member.key }) {
            fault("\(pointer)/\(member.key)", "not described")
        }
    }

    private mutating func fault(_ pointer: String, _ text: String, _ value: JSONValue) {
        fault(pointer, "\(text), found \(value.typeName)")
    }
    private mutating func fault(_ pointer: String, _ text: String) { faults.append("\(pointer.isEmpty ? "/" : pointer): \(text)") }
}

extension JSONValue {
    /// Of arrays of words, which are all whose items must differ, but for tokens.
    fileprivate var hasRepeatedText: Bool {
        let texts = (arrayValue ?? []).compactMap(\.stringValue)
        return Set(texts).count < texts.count
    }
}
