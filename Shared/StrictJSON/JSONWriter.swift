/// Appends JSON to a byte buffer: no tree, no intermediate strings, no escapes that JSON does not need.
///
/// The writer adds the commas; the closures make the braces match. Use ``bytes`` when the outermost value is closed.
package struct JSONWriter {
    package private(set) var bytes: [UInt8] = []
    private var needsComma = false

    package init(reservingCapacity capacity: Int = 256) { bytes.reserveCapacity(capacity) }

    // MARK: Containers

    package mutating func object(_ body: (inout JSONWriter) -> Void) {
        open(UInt8(ascii: "{"))
        body(&self)
        close(UInt8(ascii: "}"))
    }

    package mutating func array(_ body: (inout JSONWriter) -> Void) {
        open(UInt8(ascii: "["))
        body(&self)
        close(UInt8(ascii: "]"))
    }

    package mutating func array(_ name: String, _ body: (inout JSONWriter) -> Void) {
        self.name(name)
        array(body)
    }

    package mutating func object(_ name: String, _ body: (inout JSONWriter) -> Void) {
        self.name(name)
        object(body)
    }

    private mutating func open(_ byte: UInt8) {
        separate()
        bytes.append(byte)
        needsComma = false
    }

    private mutating func close(_ byte: UInt8) {
        bytes.append(byte)
        needsComma = true
    }

    // MARK: Values, as elements of an array or as the whole text

    package mutating func value(_ value: String) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        appendEscaped(value)
        bytes.append(UInt8(ascii: "\""))
    }

    package mutating func value(_ value: Int64) {
        separate()
        appendDecimal(value)
    }

    package mutating func value(_ value: Int) { self.value(Int64(value)) }

    package mutating func value(_ value: some FixedWidthInteger & SignedInteger) { self.value(Int64(value)) }

    package mutating func value(_ value: Bool) {
        separate()
        bytes.append(contentsOf: (value ? "true" : "false").utf8)
    }

    /// JSON cannot express infinity or not-a-number: they are written as null.
    package mutating func value(_ value: Double) {
        separate()
        bytes.append(contentsOf: (value.isFinite ? value.description : "null").utf8)
    }

    package mutating func null() {
        separate()
        bytes.append(contentsOf: "null".utf8)
    }

    /// Bytes that are one JSON value already.
    package mutating func raw(_ json: [UInt8]) { raw(json[...]) }

    /// Bytes that are one JSON value already: a slice of a source.
    package mutating func raw(_ json: ArraySlice<UInt8>) {
        separate()
        bytes.append(contentsOf: json)
    }

    /// One value, or the fields of an object up to the last one's value, which `append` writes itself; ``decimal(_:after:)`` may follow.
    package mutating func raw(_ append: (inout [UInt8]) -> Void) {
        separate()
        append(&bytes)
    }

    /// A number right after the text before it.
    /// - Parameter prefix: written before it as it is: a comma, a name, a colon.
    package mutating func decimal(_ value: Int64, after prefix: String = "") {
        if !prefix.isEmpty { bytes.append(contentsOf: prefix.utf8) }
        appendDecimal(value)
    }

    /// A string whose content `append` writes itself. It must need no escapes: hex, digits, ids.
    package mutating func plainString(_ append: (inout [UInt8]) -> Void) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        append(&bytes)
        bytes.append(UInt8(ascii: "\""))
    }

    // MARK: Fields

    /// A field's name; the value must follow.
    package mutating func name(_ name: String) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        appendEscaped(name)
        bytes.append(UInt8(ascii: "\""))
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    /// A field's name as ``encoded(name:)`` gives it; the value must follow.
    package mutating func name(encoded: [UInt8]) {
        separate()
        bytes.append(contentsOf: encoded)
        needsComma = false
    }

    /// A field's name in quotes, and the colon: for a name that is written often.
    package static func encoded(name: String) -> [UInt8] {
        var writer = JSONWriter()
        writer.name(name)
        return writer.bytes
    }

    package mutating func field(_ name: String, _ value: String) {
        self.name(name)
        self.value(value)
    }

    package mutating func field(_ name: String, _ value: Int64) {
        self.name(name)
        self.value(value)
    }

    package mutating func field(_ name: String, _ value: Int) { field(name, Int64(value)) }

    package mutating func field(_ name: String, _ value: some FixedWidthInteger & SignedInteger) { field(name, Int64(value)) }

    package mutating func field(_ name: String, _ value: Bool) {
        self.name(name)
        self.value(value)
    }

    package mutating func field(_ name: String, _ value: Double) {
        self.name(name)
        self.value(value)
    }

    package mutating func field(_ name: String, raw json: [UInt8]) { field(name, raw: json[...]) }

    package mutating func field(_ name: String, raw json: ArraySlice<UInt8>) {
        self.name(name)
        raw(json)
    }

    package mutating func field(_ name: String, _ values: [String]) {
        array(name) { writer in
            for value in values { writer.value(value) }
        }
    }

    package mutating func null(_ name: String) {
        self.name(name)
        null()
    }

    /// See ``plainString(_:)``.
    package mutating func plainField(_ name: String, _ append: (inout [UInt8]) -> Void) {
        self.name(name)
        plainString(append)
    }

    // MARK: Bytes

    private mutating func separate() {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
        needsComma = true
    }

    private mutating func appendEscaped(_ text: String) {
        let utf8 = text.utf8
        if Self.needsNoEscape(utf8.span) {
            bytes.append(contentsOf: utf8)
        } else {
            for byte in utf8 { appendEscaped(byte) }
        }
    }

    private static func needsNoEscape(_ text: Span<UInt8>) -> Bool {
        for index in text.indices {
            let byte = text[index]
            if byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { return false }
        }
        return true
    }

    private mutating func appendEscaped(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"): bytes.append(contentsOf: [UInt8(ascii: "\\"), byte])
        case 0x0a: bytes.append(contentsOf: "\\n".utf8)
        case 0x0d: bytes.append(contentsOf: "\\r".utf8)
        case 0x09: bytes.append(contentsOf: "\\t".utf8)
        case 0x08: bytes.append(contentsOf: "\\b".utf8)
        case 0x0c: bytes.append(contentsOf: "\\f".utf8)
        case 0x00..<0x20:
            bytes.append(contentsOf: "\\u00".utf8)
            bytes.append(byte < 0x10 ? UInt8(ascii: "0") : UInt8(ascii: "1"))
            let digit = byte & 0x0f
            bytes.append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
        default: bytes.append(byte)
        }
    }

    private mutating func appendDecimal(_ value: Int64) {
        if 0..<10 ~= value { return bytes.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: value)) }
        if value < 0 { bytes.append(UInt8(ascii: "-")) }
        var magnitude = value.magnitude
        var digits = 1
        var bound: UInt64 = 10
        while digits < 19, magnitude >= bound {
            digits += 1
            bound *= 10
        }
        bytes.append(contentsOf: repeatElement(UInt8(ascii: "0"), count: digits))
        var place = bytes.count
        var text = bytes.mutableSpan
        while magnitude > 0 {
            place -= 1
            text[place] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: magnitude % 10)
            magnitude /= 10
        }
    }
}

/// Leaves out fields whose value is nil.
extension JSONWriter {
    package mutating func field(_ name: String, _ value: String?) {
        if let value { field(name, value) }
    }

    package mutating func field(_ name: String, _ value: Int64?) {
        if let value { field(name, value) }
    }

    package mutating func field(_ name: String, _ value: Int?) {
        if let value { field(name, Int64(value)) }
    }

    package mutating func field(_ name: String, _ value: (some FixedWidthInteger & SignedInteger)?) {
        if let value { field(name, Int64(value)) }
    }

    package mutating func field(_ name: String, _ value: Bool?) {
        if let value { field(name, value) }
    }

    package mutating func field(_ name: String, _ value: Double?) {
        if let value { field(name, value) }
    }
}

extension JSONWriter {
    /// Writes a parsed value again, without blanks and with no escapes that it does not need.
    package mutating func value(_ value: JSONValue) {
        switch value.kind {
        case .null: null()
        case .bool(let value): self.value(value)
        case .integer(let value): self.value(value)
        case .number(let value): self.value(value)
        case .string(let value): self.value(value)
        case .array(let elements):
            array { writer in
                for element in elements { writer.value(element) }
            }
        case .object(let fields):
            object { writer in
                for (name, value) in fields {
                    writer.name(name)
                    writer.value(value)
                }
            }
        }
    }
}
