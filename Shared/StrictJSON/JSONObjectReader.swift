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

extension JSONObjectReader {
    /// Control characters are refused: a database cannot store U+0000, a terminal obeys the others, and JSON writes them as six bytes.
    /// - Parameters:
    ///   - maximumBytes: Of UTF-8.
    ///   - isProse: The text may have lines, so that of the control characters U+0000 alone is refused.
    package mutating func string(_ key: String, minimumBytes: Int = 1, maximumBytes: Int, isProse: Bool = false) -> String? {
        value(key).flatMap { checkedString(key, $0, minimumBytes...max(minimumBytes, maximumBytes), isProse: isProse) }
    }

    package mutating func optionalString(_ key: String, minimumBytes: Int = 1, maximumBytes: Int, isProse: Bool = false) -> String? {
        optionalValue(key).flatMap { checkedString(key, $0, minimumBytes...max(minimumBytes, maximumBytes), isProse: isProse) }
    }

    package mutating func integer(_ key: String, in range: ClosedRange<Int64> = .min ... .max) -> Int64? {
        value(key).flatMap { checkedInteger(key, $0, range) }
    }

    package mutating func optionalInteger(_ key: String, in range: ClosedRange<Int64> = .min ... .max) -> Int64? {
        optionalValue(key).flatMap { checkedInteger(key, $0, range) }
    }

    package mutating func bool(_ key: String) -> Bool? {
        value(key).flatMap { checkedBool(key, $0) }
    }

    package mutating func optionalBool(_ key: String) -> Bool? {
        optionalValue(key).flatMap { checkedBool(key, $0) }
    }

    /// One of an enumeration's raw values, spelled exactly so.
    package mutating func choice<Choice: RawRepresentable<String> & CaseIterable>(_ key: String, of type: Choice.Type) -> Choice? {
        value(key).flatMap { checkedChoice(key, $0) }
    }

    package mutating func optionalChoice<Choice: RawRepresentable<String> & CaseIterable>(
        _ key: String, of type: Choice.Type
    ) -> Choice? {
        optionalValue(key).flatMap { checkedChoice(key, $0) }
    }

    // MARK: Arrays and objects

    package mutating func strings(_ key: String, maximumCount: Int, maximumBytes: Int) -> [String]? {
        value(key).flatMap { checkedStrings(key, $0, maximumCount, maximumBytes) }
    }

    package mutating func optionalStrings(_ key: String, maximumCount: Int, maximumBytes: Int) -> [String]? {
        optionalValue(key).flatMap { checkedStrings(key, $0, maximumCount, maximumBytes) }
    }

    package mutating func object(_ key: String) -> JSONObjectReader? {
        value(key).flatMap { checkedObject(key, $0) }
    }

    package mutating func optionalObject(_ key: String) -> JSONObjectReader? {
        optionalValue(key).flatMap { checkedObject(key, $0) }
    }

    package mutating func objects(_ key: String, maximumCount: Int) -> [JSONObjectReader]? {
        value(key).flatMap { checkedObjects(key, $0, maximumCount) }
    }

    package mutating func optionalObjects(_ key: String, maximumCount: Int) -> [JSONObjectReader]? {
        optionalValue(key).flatMap { checkedObjects(key, $0, maximumCount) }
    }

    // MARK: Checks

    /// - Parameter step: The path from the field to one of its elements.
    private func checkedString(
        _ key: String, step: String = "", _ value: JSONValue, _ bytes: ClosedRange<Int>, isProse: Bool = false
    ) -> String? {
        guard let text = value.stringValue else {
            wrongType(key, step: step, expected: "a string", value)
            return nil
        }
        if text.utf8.count > bytes.upperBound {
            problem(key, step: step, "too_long", "at most \(bytes.upperBound) bytes of UTF-8")
        } else if text.utf8.count < bytes.lowerBound {
            problem(
                key, step: step, "too_short", bytes.lowerBound == 1 ? "must not be empty" : "at least \(bytes.lowerBound) bytes of UTF-8")
        } else if text.utf8.contains(where: { isProse ? $0 == 0 : $0.isControl }) {
            problem(key, step: step, "invalid_character", isProse ? "U+0000 is not allowed" : "control characters are not allowed")
        } else {
            return text
        }
        return nil
    }

    private func checkedInteger(_ key: String, _ value: JSONValue, _ range: ClosedRange<Int64>) -> Int64? {
        guard let number = value.wholeValue else {
            wrongType(key, expected: "a whole number", value)
            return nil
        }
        guard range.contains(number) else {
            problem(key, "out_of_range", "from \(range.lowerBound) to \(range.upperBound)")
            return nil
        }
        return number
    }

    private func checkedBool(_ key: String, _ value: JSONValue) -> Bool? {
        if value.boolValue == nil { wrongType(key, expected: "true or false", value) }
        return value.boolValue
    }

    private func checkedChoice<Choice: RawRepresentable<String> & CaseIterable>(_ key: String, _ value: JSONValue) -> Choice? {
        guard let text = value.stringValue else {
            wrongType(key, expected: "a string", value)
            return nil
        }
        guard let choice = Choice(rawValue: text) else {
            problem(key, "unsupported_value", "one of " + Choice.allCases.map(\.rawValue).joined(separator: ", "))
            return nil
        }
        return choice
    }

    private func checkedArray(_ key: String, _ value: JSONValue, _ maximumCount: Int) -> [JSONValue]? {
        guard let elements = value.arrayValue else {
            wrongType(key, expected: "an array", value)
            return nil
        }
        guard elements.count <= maximumCount else {
            problem(key, "too_many", "at most \(maximumCount) elements")
            return nil
        }
        return elements
    }

    private func checkedStrings(_ key: String, _ value: JSONValue, _ maximumCount: Int, _ maximumBytes: Int) -> [String]? {
        guard let elements = checkedArray(key, value, maximumCount) else { return nil }
        let texts = elements.enumerated().map { index, element in
            checkedString(key, step: "/\(index)", element, 1...max(1, maximumBytes))
        }
        let good = texts.compactMap { $0 }
        return good.count == texts.count ? good : nil
    }

    private func checkedObject(_ key: String, _ value: JSONValue) -> JSONObjectReader? {
        guard value.objectValue != nil else {
            wrongType(key, expected: "an object", value)
            return nil
        }
        return JSONObjectReader(value, at: pointer + pointerStep(key), problems: problems)
    }

    private func checkedObjects(_ key: String, _ value: JSONValue, _ maximumCount: Int) -> [JSONObjectReader]? {
        guard let elements = checkedArray(key, value, maximumCount) else { return nil }
        return elements.enumerated().map { index, element in
            JSONObjectReader(element, at: pointer + pointerStep(key) + "/\(index)", problems: problems)
        }
    }
}

extension UInt8 {
    /// Whether this byte of UTF-8 is a control character: one below U+0020, or U+007F. No name may have one.
    package var isControl: Bool { self < 0x20 || self == 0x7f }
}
