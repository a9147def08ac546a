/// A parsed JSON value that knows the bytes it was read from, so that a part of a body can be kept verbatim.
package struct JSONValue: Sendable {
    package enum Kind: Sendable {
        case null
        case bool(Bool)
        /// A number without fraction and exponent, and within 64 bits.
        case integer(Int64)
        case number(Double)
        case string(String)
        case array([JSONValue])
        /// The members in the order of the text; names are unique.
        case object([(key: String, value: JSONValue)])
    }

    package let kind: Kind
    /// The range of the value in the bytes it was parsed from.
    package let range: Range<Int>

    /// The largest text that is parsed by default: a request's limit.
    package static let defaultMaximumBytes = 1 << 20

    /// Reads exactly one value.
    ///
    /// Refuses: more than `maximumBytes` or `maximumValues`, nesting beyond `maximumDepth`, a name twice in one object, broken UTF-8, half
    /// surrogate pairs, numbers that begin with 0 or are not finite, and any text after the value.
    /// - Parameter maximumValues: Each of them takes 40 bytes, also one that is a single digit in the text.
    package static func parse(
        _ bytes: [UInt8], maximumDepth: Int = JSONScanner.defaultMaximumDepth, maximumBytes: Int = defaultMaximumBytes,
        maximumValues: Int = .max
    ) throws(JSONError) -> JSONValue {
        guard bytes.count <= maximumBytes else { throw JSONError(at: 0, in: bytes, "longer than \(maximumBytes) bytes") }
        var scanner = JSONScanner(bytes, maximumDepth: maximumDepth)
        scanner.valuesLeft = maximumValues
        let value = try scanner.value()
        try scanner.finish()
        return value
    }

    /// The field of that name; nil if there is none or this is not an object.
    package subscript(_ key: String) -> JSONValue? {
        guard case .object(let fields) = kind else { return nil }
        return fields.first { $0.key == key }?.value
    }

    /// The element at that index; nil if there is none or this is not an array.
    package subscript(_ index: Int) -> JSONValue? {
        guard case .array(let elements) = kind, elements.indices.contains(index) else { return nil }
        return elements[index]
    }

    package var isNull: Bool {
        if case .null = kind { true } else { false }
    }
    package var boolValue: Bool? {
        if case .bool(let value) = kind { value } else { nil }
    }
    package var integerValue: Int64? {
        if case .integer(let value) = kind { value } else { nil }
    }
    /// A whole number in any notation: `1.0` and `1e2` are integers too (JSON Schema 2020-12, Validation, section 6.1.1). Only as far as a
    /// double distinguishes neighbours.
    package var wholeValue: Int64? {
        switch kind {
        case .integer(let value): value
        case .number(let value) where abs(value) < 0x20_0000_0000_0000: Int64(exactly: value)
        default: nil
        }
    }
    /// Any number, also a whole one.
    package var numberValue: Double? {
        switch kind {
        case .integer(let value): Double(value)
        case .number(let value): value
        default: nil
        }
    }
    package var stringValue: String? {
        if case .string(let value) = kind { value } else { nil }
    }
    package var arrayValue: [JSONValue]? {
        if case .array(let value) = kind { value } else { nil }
    }
    package var objectValue: [(key: String, value: JSONValue)]? {
        if case .object(let value) = kind { value } else { nil }
    }

    /// The name of this kind of value in an error.
    package var typeName: String {
        switch kind {
        case .null: "null"
        case .bool: "a boolean"
        case .integer: "a whole number"
        case .number: "a number"
        case .string: "a string"
        case .array: "an array"
        case .object: "an object"
        }
    }
}

extension JSONScanner {
    /// Reads any one value into a tree. Recursion is bounded by the depth limit.
    package mutating func value() throws(JSONError) -> JSONValue {
        let first = peek()
        guard valuesLeft > 0 else { throw error("more values than are taken") }
        valuesLeft -= 1
        let start = position
        let kind: JSONValue.Kind
        switch first {
        case UInt8(ascii: "\""): kind = .string(try string())
        case UInt8(ascii: "{"): kind = .object(try members())
        case UInt8(ascii: "["): kind = .array(try elements())
        case UInt8(ascii: "t"), UInt8(ascii: "f"): kind = .bool(try bool())
        case UInt8(ascii: "n"):
            _ = try null()
            kind = .null
        default:
            guard Self.beginsNumber(first) else { throw error(isAtByteOrderMark ? Self.byteOrderMarkFault : "expected a value") }
            switch try number() {
            case .integer(let value): kind = .integer(value)
            case .fraction(let value): kind = .number(value)
            }
        }
        return JSONValue(kind: kind, range: start..<position)
    }

    /// RFC 8259 section 8.1 lets a reader ignore the mark. It is named instead, because what follows is cut out and sent on.
    private var isAtByteOrderMark: Bool { source[position...].starts(with: [0xef, 0xbb, 0xbf]) }
    private static let byteOrderMarkFault = "a byte order mark (BOM, EF BB BF) stands before the value: write the text in UTF-8 without one"

    private mutating func members() throws(JSONError) -> [(key: String, value: JSONValue)] {
        var members: [(key: String, value: JSONValue)] = []
        var names = JSONNameSet()
        try beginObject()
        while let bytes = try nextName() {
            let name = String(decoding: bytes, as: UTF8.self)
            guard names.insert(name) else { throw error("the name before this place stands twice in its object") }
            members.append((name, try value()))
        }
        return members
    }

    private mutating func elements() throws(JSONError) -> [JSONValue] {
        var elements: [JSONValue] = []
        try beginArray()
        while try nextElement() { elements.append(try value()) }
        return elements
    }
}

/// The names found in one object. Small objects are compared one by one; a large one is hashed, so that many names do not take quadratic
/// time.
///
/// Names that Unicode calls canonically equivalent count as the same: readers differ about them, which attackers use.
struct JSONNameSet {
    private var few: [String] = []
    private var many: Set<String> = []

    /// - Returns: False when the name was there already.
    mutating func insert(_ name: ArraySlice<UInt8>) -> Bool { insert(String(decoding: name, as: UTF8.self)) }

    mutating func insert(_ name: String) -> Bool {
        if !many.isEmpty { return many.insert(name).inserted }
        guard !few.contains(name) else { return false }
        few.append(name)
        if few.count > 8 { many = Set(few) }
        return true
    }
}
