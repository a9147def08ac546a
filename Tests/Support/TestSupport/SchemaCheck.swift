import PushModel
package import StrictJSON

/// Holds a JSON value against a schema of an API's description.
///
/// Stricter than JSON Schema: a field that is not described is a fault in answers too, because it would never be described then.
package struct SchemaCheck {
    /// Where the check is: the place in the value, and the names of the fields that lead there.
    private struct Place {
        var pointer = ""
        var field = ""

        func item(_ step: String) -> Place { Place(pointer: "\(pointer)/\(step)", field: field) }
        func field(_ name: String) -> Place { Place(pointer: "\(pointer)/\(name)", field: "\(field)/\(name)") }
    }

    private let description: APIDescription
    /// `pointer: what is wrong`.
    package private(set) var faults: [String] = []
    /// The described fields that the value has, as ``APIDescription/fields(of:)`` names them.
    package private(set) var fields: Set<String> = []

    package init(_ value: JSONValue, against schema: JSONValue, in description: APIDescription) {
        self.description = description
        check(value, schema, at: Place())
    }

    private init(_ value: JSONValue, _ schema: JSONValue, at place: Place, in description: APIDescription) {
        self.description = description
        check(value, schema, at: place)
    }

    private mutating func check(_ value: JSONValue, _ stated: JSONValue, at place: Place) {
        let schema = description.resolved(stated)
        if value.isNull, schema.takesNull { return }
        let options = description.options(of: schema)
        guard options.isEmpty else { return check(value, oneOf: options, at: place) }
        if let allowed = schema["enum"]?.arrayValue {
            if !allowed.contains(where: { $0.isSameWord(as: value) }) { fault(place, "not one of \(allowed.map(\.word))", value) }
            return
        }
        switch schema.type {
        case "string": check(text: value, schema, at: place)
        case "integer":
            guard let number = value.wholeValue else { return fault(place, "expected an integer", value) }
            let (minimum, maximum) = (schema["minimum"]?.integerValue ?? .min, schema["maximum"]?.integerValue ?? .max)
            if number < minimum || number > maximum { fault(place, "\(number) is out of range") }
        case "number": if value.numberValue == nil { fault(place, "expected a number", value) }
        case "boolean": if value.boolValue == nil { fault(place, "expected a boolean", value) }
        case "array": check(array: value, schema, at: place)
        case "object": check(object: value, schema, at: place)
        case nil: break
        case let type?: fault(place, "the checker does not know the type \(type)")
        }
    }

    private mutating func check(_ value: JSONValue, oneOf options: [JSONValue], at place: Place) {
        let checks = options.map { SchemaCheck(value, $0, at: place, in: description) }
        let good = checks.filter(\.faults.isEmpty)
        for check in good { fields.formUnion(check.fields) }
        guard good.count != 1 else { return }
        // What is wrong with the only form says more.
        if checks.count == 1 { faults += checks[0].faults } else { fault(place, "matches \(good.count) of \(checks.count) forms") }
    }

    private mutating func check(text value: JSONValue, _ schema: JSONValue, at place: Place) {
        guard let text = value.stringValue else { return fault(place, "expected a string", value) }
        let (minimum, maximum) = (schema["minLength"]?.integerValue ?? 0, schema["maxLength"]?.integerValue ?? .max)
        if !(minimum...maximum).contains(Int64(text.unicodeScalars.count)) { fault(place, "of the wrong length") }
        switch schema["format"]?.stringValue {
        case "uuid": if PushID(text) == nil { fault(place, "no UUID") }
        case "date-time": if RFC3339.milliseconds(text) == nil { fault(place, "no date and time") }
        case nil: break
        case let format?: fault(place, "the checker does not know the format \(format)")
        }
        guard let pattern = schema["pattern"]?.stringValue else { return }
        do {
            if text.firstMatch(of: try Regex(pattern)) == nil { fault(place, "does not match \(pattern)") }
        } catch {
            fault(place, "the pattern \(pattern) cannot be read")
        }
    }

    private mutating func check(array value: JSONValue, _ schema: JSONValue, at place: Place) {
        guard let elements = value.arrayValue else { return fault(place, "expected an array", value) }
        let (minimum, maximum) = (schema["minItems"]?.integerValue ?? 0, schema["maxItems"]?.integerValue ?? .max)
        if !(minimum...maximum).contains(Int64(elements.count)) { fault(place, "of the wrong length") }
        guard let element = schema["items"] else { return }
        for (index, value) in elements.enumerated() { check(value, element, at: place.item("\(index)")) }
        // Of arrays of words, which are all whose items must differ, but for tokens.
        let texts = elements.compactMap(\.stringValue)
        if schema["uniqueItems"]?.boolValue == true, Set(texts).count < texts.count { fault(place, "an item twice") }
    }

    private mutating func check(object value: JSONValue, _ schema: JSONValue, at place: Place) {
        guard let members = value.objectValue else { return fault(place, "expected an object", value) }
        let properties = schema["properties"]
        for (name, schema) in properties?.objectValue ?? [] {
            guard let value = value[name] else { continue }
            fields.insert(place.field(name).field)
            check(value, schema, at: place.field(name))
        }
        for name in schema["required"]?.arrayValue ?? [] {
            guard let name = name.stringValue, value[name] == nil else { continue }
            fault(place.item(name), "missing")
        }
        let others = schema["additionalProperties"].flatMap { $0.objectValue == nil ? nil : $0 }
        for member in members where properties?[member.key] == nil {
            if let others {
                check(member.value, others, at: place.item(member.key))
            } else {
                fault(place.item(member.key), "not described")
            }
        }
    }

    private mutating func fault(_ place: Place, _ text: String, _ value: JSONValue) { fault(place, "\(text), found \(value.typeName)") }
    private mutating func fault(_ place: Place, _ text: String) { faults.append("\(place.pointer.isEmpty ? "/" : place.pointer): \(text)") }
}

extension JSONValue {
    /// `type` without `null`; nil for a schema that takes anything.
    var type: String? {
        self["type"]?.stringValue ?? (self["type"]?.arrayValue ?? []).compactMap(\.stringValue).first { $0 != "null" }
    }

    var takesNull: Bool {
        (self["type"]?.arrayValue ?? []).contains { $0.stringValue == "null" }
            || (self["anyOf"]?.arrayValue ?? []).contains(where: \.isNullType)
    }

    var isNullType: Bool { self["type"]?.stringValue == "null" }

    /// A word of an `enum`.
    var word: String { stringValue ?? wholeValue.map { "\($0)" } ?? "null" }

    fileprivate func isSameWord(as other: JSONValue) -> Bool {
        if let stringValue {
            other.stringValue == stringValue
        } else if let wholeValue {
            other.wholeValue == wholeValue
        } else {
            isNull && other.isNull
        }
    }
}
