/// Reads an object field by field, records every problem instead of stopping at the first, and refuses unknown fields.
///
/// A required field that is missing or wrong reads as nil and leaves a problem. An optional one may be absent or null. Read every field,
/// then call ``finish()``; the values may be used only if ``problems`` is empty. Not Sendable: one request, one reader.
package struct JSONObjectReader {
    package let value: JSONValue
    package let pointer: String
    package let problems: JSONProblems
    private let fields: [(key: String, value: JSONValue)]
    private let isObject: Bool
    /// Whether the caller has read the field at that place in ``fields``.
    private var asked: [Bool]

    /// - Parameter value: If it is not an object, that is a problem, and every field reads as absent without a further one.
    package init(_ value: JSONValue, at pointer: String = "", problems: JSONProblems = JSONProblems()) {
        self.value = value
        self.pointer = pointer
        self.problems = problems
        fields = value.objectValue ?? []
        asked = Array(repeating: false, count: fields.count)
        isObject = value.objectValue != nil
        if !isObject {
            problems.add(JSONProblem(pointer: pointer, code: "wrong_type", detail: "expected an object, found \(value.typeName)"))
        }
    }

    /// Records a problem with a field, or with the part of it that `step` (a JSON pointer) names.
    package func problem(_ key: String, step: String = "", _ code: String, _ detail: String) {
        problems.add(JSONProblem(pointer: pointer + pointerStep(key) + step, code: code, detail: detail))
    }

    /// Whether the field is there, be it null.
    package mutating func has(_ key: String) -> Bool {
        find(key) != nil
    }

    /// Any value, null included; a problem if the field is absent.
    package mutating func value(_ key: String) -> JSONValue? {
        if let field = find(key) { return field }
        if isObject { problem(key, "missing", "required") }
        return nil
    }

    /// Any value; nil if the field is absent or null.
    package mutating func optionalValue(_ key: String) -> JSONValue? {
        guard let field = find(key), !field.isNull else { return nil }
        return field
    }

    private mutating func find(_ key: String) -> JSONValue? {
        guard let index = fields.firstIndex(where: { $0.key == key }) else { return nil }
        asked[index] = true
        return fields[index].value
    }

    /// Call it after every field was read: the others are unknown.
    package func finish() {
        for (field, isKnown) in zip(fields, asked) where !isKnown {
            problem(field.key, "unknown_field", "not a field of this object")
        }
    }

    func wrongType(_ key: String, step: String = "", expected: String, _ value: JSONValue) {
        problem(key, step: step, "wrong_type", "expected \(expected), found \(value.typeName)")
    }
}
